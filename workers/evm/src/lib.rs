//! Contract calls from any number of wallets: one transaction per request, through crashes, lying endpoints, stuck fees
//! and reorganisations of the chain.

pub mod checker;
mod endpoints;
pub mod fees;
pub mod node_error;

pub use endpoints::{CallError, CallRequest, Chain, ChainError, RpcCall, RpcError, SendAnswer};
