//! What is sent, and what came of it.

use std::fmt;

use alloy::{
    primitives::{Address, B256, Bytes},
    rpc::types::{Log, TransactionReceipt},
};
use tidegate::{Lease, request::RequestId};

use crate::{RpcError, node_error::Class, store::StoreError};

/// A contract call that is to be sent once for a request.
#[derive(Clone)]
pub struct Order {
    /// The request. It gets one transaction, however often it is ordered.
    pub request: RequestId,
    /// The lease under which the stage has the request: without it no transaction is signed.
    pub lease: Lease,
    /// The contract.
    pub to: Address,
    /// The input of the call.
    pub calldata: Bytes,
}

/// The calldata may be secret.
impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order")
            .field("request", &self.request)
            .field("to", &self.to)
            .field("calldata", &self.calldata.len())
            .finish_non_exhaustive()
    }
}

/// What came of an order.
#[derive(Clone, Debug)]
pub enum Sending {
    /// Its transaction is mined and succeeded.
    Mined(Mined),
    /// The call reverts, or did when its transaction was mined. It is not sent again.
    Reverted(Revert),
    /// No endpoint takes a transaction of its size. Its nonce is used up without it, once its request has ended.
    TooLarge,
    /// No block takes a transaction with its gas limit. Its nonce is used up without it, once its request has ended.
    Gas,
    /// Not now: order it again later. A transaction that it has already is then resumed.
    Waiting(WaitCause),
    /// The request has ended, or its lease is not held any more; its transaction, if it has one, may still be mined.
    Ended,
}

/// What became of the transaction of a request whose send is over.
#[derive(Clone, Debug)]
pub enum Finding {
    /// It is mined and succeeded.
    Mined(Mined),
    /// It may still be mined.
    Open,
    /// It had no effect and will have none: the request has none, its nonce was finally used by another one, or its call
    /// reverted in a final block.
    Never,
}

impl Finding {
    /// The transaction that succeeded.
    #[must_use]
    pub fn mined(self) -> Option<Mined> {
        match self {
            Self::Mined(mined) => Some(mined),
            Self::Open | Self::Never => None,
        }
    }
}

/// A mined transaction that succeeded.
#[derive(Clone, Debug)]
pub struct Mined {
    /// Its hash.
    pub hash: B256,
    /// The number of its block.
    pub block_number: u64,
    /// The hash of its block, which a reorganisation of the chain changes.
    pub block_hash: B256,
    /// The logs of its receipt.
    pub logs: Vec<Log>,
}

impl Mined {
    /// `None` for the receipt of a transaction that is not in a block.
    pub(crate) fn of(receipt: &TransactionReceipt) -> Option<Self> {
        Some(Self {
            hash: receipt.transaction_hash,
            block_number: receipt.block_number?,
            block_hash: receipt.block_hash?,
            logs: receipt.inner.logs().to_vec(),
        })
    }
}

/// A call that reverts.
#[derive(Clone, Debug)]
pub struct Revert {
    /// What the contract returned: a selector and its arguments, or nothing.
    pub data: Bytes,
    /// Whether the transaction was mined, and so has used a nonce.
    pub mined: bool,
}

/// Why an order is not through yet.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WaitCause {
    /// No endpoint gave a usable answer.
    #[error("the chain could not be asked: {0}")]
    Endpoint(#[from] RpcError),
    /// The database did not answer.
    #[error("the database did not answer: {0}")]
    Database(String),
    /// Every wallet has as many transactions under way as it may have.
    #[error("every wallet has its most transactions under way")]
    Full,
    /// No wallet has funds.
    #[error("no wallet has funds: send gas money or tokens to one")]
    Unfunded,
    /// No wallet whose key is held here is in use.
    #[error("no wallet takes orders: {0}")]
    NoWallet(String),
    /// The address has no code, so a call of it does nothing.
    #[error("{0} is no contract on this chain: correct its address")]
    NoContract(Address),
    /// The key could not sign.
    #[error("the key of a wallet did not sign: {0}")]
    Signer(String),
    /// Its transaction is signed and not mined.
    #[error("its transaction is not mined yet")]
    NotMined,
}

impl WaitCause {
    /// Whether it may pass within a second.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Self::Endpoint(error) => matches!(error.class(), Class::Unknown | Class::Limited | Class::Behind),
            Self::Database(_) | Self::Signer(_) | Self::NoWallet(_) => true,
            Self::Full | Self::Unfunded | Self::NoContract(_) | Self::NotMined => false,
        }
    }
}

/// Why the transaction of a request could not be searched for.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SenderError {
    /// No endpoint gave a usable answer.
    #[error("the chain could not be asked: {0}")]
    Endpoint(#[from] RpcError),
    /// The database did not answer.
    #[error("the database did not answer: {0}")]
    Database(String),
}

impl From<StoreError> for WaitCause {
    fn from(error: StoreError) -> Self {
        Self::Database(error.to_string())
    }
}

impl From<StoreError> for SenderError {
    fn from(error: StoreError) -> Self {
        Self::Database(error.to_string())
    }
}
