//! The relayer of the fhEVM gateway, on Tidegate.

pub mod abi;
pub mod config;
mod fields;
pub mod fingerprint;
pub mod labels;
pub mod request;
mod schema;

pub use schema::migrations;
