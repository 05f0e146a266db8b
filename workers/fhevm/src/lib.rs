//! The relayer of the fhEVM gateway, on Tidegate.

pub mod abi;
mod fields;
pub mod fingerprint;
pub mod labels;
pub mod request;
