//! Contract calls from any number of wallets: one transaction per request, through crashes, lying endpoints, stuck fees
//! and reorganisations of the chain.

mod batcher;
mod body;
mod broadcast;
pub mod checker;
mod endpoints;
mod failpoint;
pub mod keeper;
mod loss;
mod metrics;
pub mod node_error;
pub mod operations;
mod order;
mod receipts;
mod revert;
mod schema;
mod sender;
pub mod signer;
pub mod store;
pub mod wallets;
mod watcher;

pub use endpoints::{CallError, CallRequest, Chain, ChainError, RpcCall, RpcError, SendAnswer, fees};
pub use order::{Finding, Mined, Order, Revert, SenderError, Sending, WaitCause};
pub use revert::replay;
pub use schema::migrations;
pub use sender::{Sender, SenderOptions};
pub use signer::{LocalSigner, Signer};
pub use watcher::{HandlerError, PageHandler, WatchOptions, Watcher};
