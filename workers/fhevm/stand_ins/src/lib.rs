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
pub mod kms;
pub mod network;
mod node;
pub mod rpc;
pub mod rpc_proxy;
pub mod user;
pub mod workload;

#[cfg(test)]
mod tests;

pub use node::{Behaviour, Node};
