//! The transaction in which nonces are taken and used at once.

use alloy::primitives::{Address, B256, Bytes};
use sqlx::{Executor, PgConnection, Postgres, pool::PoolConnection};
use tidegate::{Lease, request::RequestId};

use super::{SLOTS, Slot, Store, StoreError, limited, number, slot};

/// A transaction that holds a wallet: what it inserts has the wallet's next nonces.
pub(crate) struct Allocation {
    wallet: i16,
    /// None once the transaction has ended as it should; otherwise it is closed, and so rolled back.
    connection: Option<PoolConnection<Postgres>>,
}

/// What an allocation may take.
#[derive(Debug)]
pub(crate) struct Terms {
    /// Why the wallet takes no orders.
    pub(crate) refusal: Option<String>,
    /// The first nonce.
    pub(crate) next_nonce: u64,
    /// How many nonces there are.
    pub(crate) room: usize,
    /// What each order may have, in the order given.
    pub(crate) fates: Vec<Fate>,
}

/// What an order may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A nonce.
    Free,
    /// It has a transaction already.
    Slot,
    /// Its lease is not held.
    Ended,
    /// Another transaction has its request locked.
    Locked,
}

/// An order's signed transaction.
pub(crate) struct SignedOrder {
    pub(crate) request: RequestId,
    pub(crate) to: Address,
    pub(crate) calldata: Bytes,
    pub(crate) gas_limit: u64,
    pub(crate) hash: B256,
    pub(crate) raw: Vec<u8>,
}

/// Why an allocation did not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AllocationError {
    /// Another process takes nonces of the wallet.
    #[error("another process takes nonces of the wallet")]
    Busy,
    /// A database error.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for AllocationError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Database(sqlx::Error::Database(refused)) if refused.code().as_deref() == Some("55P03") => {
                Self::Busy
            }
            _ => Self::Store(error),
        }
    }
}

impl Allocation {
    /// Begins: holds the requests of these leases, then locks the wallet, for which it waits `lock_ms` at most.
    pub(crate) async fn begin(
        store: &Store,
        wallet: i16,
        leases: &[Lease],
        lock_ms: i32,
    ) -> Result<(Self, Terms), AllocationError> {
        let connection = Some(limited(store.pool.acquire()).await?);
        let mut allocation = Self { wallet, connection };
        limited(allocation.session()?.execute("begin")).await?;
        let (tokens, ids): (Vec<_>, Vec<_>) = leases.iter().map(|lease| (lease.token, lease.id)).unzip();
        let begun = sqlx::query_as("select refusal, next_nonce, room, fates from evm.allocation_begin($1, $2, $3, $4)")
            .bind(wallet)
            .bind(tokens)
            .bind(ids)
            .bind(lock_ms);
        let (refusal, next_nonce, room, fates): (Option<String>, Option<i64>, i64, Vec<String>) =
            match limited(begun.fetch_one(allocation.session()?)).await {
                Ok(begun) => begun,
                Err(error) => {
                    let error = AllocationError::from(error);
                    // The session is sound, and others will be busy, too.
                    if matches!(error, AllocationError::Busy) {
                        allocation.abandon().await?;
                    }
                    return Err(error);
                }
            };
        let fates = fates.iter().map(|fate| match fate.as_str() {
            "free" => Ok(Fate::Free),
            "slot" => Ok(Fate::Slot),
            "ended" => Ok(Fate::Ended),
            "locked" => Ok(Fate::Locked),
            _ => Err(StoreError::Value("fates")),
        });
        let terms = Terms {
            refusal,
            next_nonce: next_nonce.and_then(|nonce| nonce.try_into().ok()).unwrap_or_default(),
            room: room.try_into().unwrap_or_default(),
            fates: fates.collect::<Result<_, _>>()?,
        };
        Ok((allocation, terms))
    }

    fn session(&mut self) -> Result<&mut PgConnection, StoreError> {
        let connection = self.connection.as_deref_mut();
        Ok(connection.ok_or(sqlx::Error::PoolClosed)?)
    }

    /// Stores signed transactions, of which the first has the nonce `first_nonce`. Returns how many were stored: all, or
    /// none if the wallet's next nonce is another.
    pub(crate) async fn insert(
        &mut self,
        first_nonce: u64,
        max_fee: u128,
        tip: u128,
        orders: &[SignedOrder],
    ) -> Result<usize, StoreError> {
        let ids: Vec<_> = orders.iter().map(|order| order.request.0).collect();
        let recipients: Vec<&[u8]> = orders.iter().map(|order| order.to.as_slice()).collect();
        let calldata: Vec<&[u8]> = orders.iter().map(|order| order.calldata.as_ref()).collect();
        let gas_limits: Vec<_> = orders.iter().map(|order| number(order.gas_limit)).collect();
        let hashes: Vec<&[u8]> = orders.iter().map(|order| order.hash.as_slice()).collect();
        let raws: Vec<&[u8]> = orders.iter().map(|order| order.raw.as_slice()).collect();
        let stored = sqlx::query_scalar::<_, i64>(
            "select evm.allocation_insert($1, $2, $3::numeric, $4::numeric, $5, $6, $7, $8, $9, $10)",
        )
        .bind(self.wallet)
        .bind(number(first_nonce))
        .bind(max_fee.to_string())
        .bind(tip.to_string())
        .bind(ids)
        .bind(recipients)
        .bind(calldata)
        .bind(gas_limits)
        .bind(hashes)
        .bind(raws);
        let stored = limited(stored.fetch_one(self.session()?)).await?;
        Ok(stored.try_into().unwrap_or_default())
    }

    /// Commits, durably. After an error the outcome is unknown: [`Store::slots_under_lock`] finds it out.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        self.end("commit").await
    }

    /// Ends without a change.
    pub(crate) async fn abandon(self) -> Result<(), StoreError> {
        self.end("rollback").await
    }

    async fn end(mut self, how: &'static str) -> Result<(), StoreError> {
        limited(self.session()?.execute(how)).await?;
        // The pool may have it back.
        self.connection = None;
        Ok(())
    }
}

impl Drop for Allocation {
    /// Closes the connection, so that the server rolls back at once and frees the wallet.
    fn drop(&mut self) {
        drop(self.connection.take().map(PoolConnection::detach));
    }
}

impl Store {
    /// The transactions of these orders once no other session can still be committing one of this wallet: read under
    /// the wallet's lock.
    pub(crate) async fn slots_under_lock(
        &self,
        wallet: i16,
        orders: &[RequestId],
    ) -> Result<Vec<Slot>, AllocationError> {
        let (mut allocation, _) = Allocation::begin(self, wallet, &[], 5_000).await?;
        let ids: Vec<_> = orders.iter().map(|order| order.0).collect();
        let slots = sqlx::query(SLOTS).bind(ids).bind(true).fetch_all(allocation.session()?);
        let slots = limited(slots).await?.iter().map(slot).collect::<Result<_, _>>()?;
        allocation.abandon().await?;
        Ok(slots)
    }
}
