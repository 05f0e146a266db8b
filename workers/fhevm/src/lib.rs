//! The relayer of the fhEVM gateway, on Tidegate.

pub mod abi;
