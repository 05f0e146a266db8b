//! The relayer of the fhEVM gateway, on Tidegate.

pub mod abi;
pub mod answers;
pub mod calldata;
pub mod chains;
pub mod config;
mod fields;
pub mod fingerprint;
pub mod http;
pub mod key_url;
pub mod kinds;
pub mod labels;
pub mod readiness;
pub mod reconcile;
pub mod request;
pub mod responses;
pub mod reverts;
mod schema;
pub mod signature;
pub mod store;
pub mod transact;
mod view;
pub mod watch;
pub mod work;

pub use schema::migrations;
