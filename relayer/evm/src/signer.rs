//! Keys that sign transactions.

mod local;

use alloy::{
    consensus::{Signed, TxEip1559},
    primitives::Address,
};
use futures_util::future::BoxFuture;

pub use self::local::{KeyError, LocalSigner};

/// The key of a wallet. Signing may be a call of another machine.
pub trait Signer: Send + Sync + 'static {
    /// The account of the key.
    fn address(&self) -> Address;

    /// Signs a transaction.
    ///
    /// # Errors
    ///
    /// When the key cannot be used; nothing is signed then.
    fn sign(&self, transaction: TxEip1559) -> BoxFuture<'_, Result<Signed<TxEip1559>, SignError>>;
}

/// Why a key did not sign. It has no part of the key.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SignError(pub String);
