//! A chain, contracts, a coprocessor and a KMS, for the tests and the demo of `tidegate-fhevm`.

pub mod abi;
pub mod answering;
pub mod artefacts;
pub mod chain;
pub mod client;
pub mod coprocessor;
pub mod deploy;
pub mod fleet;
pub mod front;
pub mod gateway;
pub mod host;
pub mod keys;
pub mod kms;
pub mod network;
mod node;
pub mod rpc;
pub mod rpc_proxy;
pub mod user;
pub mod workload;

#[cfg(test)]
mod tests;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use node::{Behaviour, Node};

/// Cargo's build directory, which has what the `prepare` scripts install.
pub fn target() -> PathBuf {
    target_at(env::var_os("CARGO_TARGET_DIR"))
}

/// Tests run in the directory of their package; cargo and the scripts, for which a relative name is, at the root.
fn target_at(directory: Option<OsString>) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join(directory.unwrap_or_else(|| "target".into()))
}
