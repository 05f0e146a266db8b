//! A chain, contracts, a coprocessor and a KMS, for the tests and the demo of `tidegate-fhevm`.

pub mod abi;
pub mod artefacts;
pub mod chain;
pub mod deploy;
pub mod rpc;
pub mod rpc_proxy;
