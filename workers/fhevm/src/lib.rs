//! The relayer of the fhEVM gateway, on Tidegate.

pub mod abi;
pub mod answers;
pub mod calldata;
pub mod config;
mod fields;
pub mod fingerprint;
pub mod key_url;
pub mod labels;
pub mod reconcile;
pub mod request;
pub mod responses;
pub mod reverts;
mod schema;
pub mod signature;
pub mod store;
pub mod transact;
mod view;

pub use schema::migrations;
