//! The relayer of the fhEVM gateway, on Tidegate.

pub mod abi;
pub mod answers;
pub mod calldata;
pub mod config;
mod fields;
pub mod fingerprint;
pub mod labels;
pub mod request;
pub mod reverts;
mod schema;
pub mod signature;

pub use schema::migrations;
