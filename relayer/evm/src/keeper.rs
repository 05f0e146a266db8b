//! What happens to a wallet's transactions after they were signed: they are sent until they are mined, with higher fees
//! if need be, and no nonce is left unused.
//!
//! One process keeps a wallet, under an epoch that every write names. Two by mistake do no harm: they send the same
//! bytes, and a version of a transaction is stored only on top of the one that it was made from.

mod bump;
mod fill;
pub mod funds;
mod rebroadcast;
mod receipts;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use alloy::{
    consensus::{Signed, TxEip1559},
    eips::{BlockNumberOrTag, Encodable2718},
    primitives::{Address, B256, Bytes, U64, U128},
};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use tidegate::Tidegate;
use tokio_util::sync::CancellationToken;

use self::{bump::Stuck, funds::Funds};
use crate::{
    Chain, RpcCall, RpcError, Signer, metrics,
    node_error::Class,
    signer::SignError,
    store::{KeptWallet, OpenSlot, Store, StoreError},
};

/// What a keeper does when.
#[derive(Clone, Debug)]
pub struct KeeperOptions {
    /// The pause between two steps.
    pub every: Duration,
    /// For how long a nonce whose request has ended may stay unused.
    pub hole_after: Duration,
    /// For how long the lowest transaction may be in a pool while blocks are made, before its fees are raised.
    pub stuck_after: Duration,
    /// How deep a block has to be to be final, on a chain without the tag `finalized`.
    pub lost_depth: u64,
    /// How many endpoints have to agree that a foreign transaction has one of the wallet's nonces.
    pub lost_quorum: usize,
    /// What the wallet needs.
    pub funds: Funds,
}

impl Default for KeeperOptions {
    fn default() -> Self {
        Self {
            every: Duration::from_millis(500),
            hole_after: Duration::from_secs(1),
            stuck_after: Duration::from_secs(10),
            lost_depth: 20,
            lost_quorum: 1,
            funds: Funds::default(),
        }
    }
}

/// Why a step was not finished. The next one begins anew.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// Another epoch keeps the wallet.
    #[error("another process keeps the wallet")]
    Superseded,
    /// The chain did not answer.
    #[error(transparent)]
    Endpoint(#[from] RpcError),
    /// The database did not answer.
    #[error(transparent)]
    Database(#[from] StoreError),
    /// The key did not sign.
    #[error("the key of the wallet did not sign: {0}")]
    Signer(#[from] SignError),
    /// A signed version cannot be read.
    #[error("the signed bytes of nonce {0} cannot be read: {1}")]
    Bytes(u64, String),
}

/// Keeps one wallet.
pub struct Keeper {
    pub(crate) chain: Chain,
    pub(crate) store: Store,
    pub(crate) signer: Arc<dyn Signer>,
    pub(crate) options: KeeperOptions,
    pub(crate) wallet: i16,
    pub(crate) name: String,
    memory: Mutex<Memory>,
}

/// What a keeper knows from its last steps. Losing it costs a look at all transactions that are not final.
#[derive(Default)]
struct Memory {
    /// No transaction of a lower nonce is open.
    open_from: Option<u64>,
    /// The lowest transaction, since it is in a pool.
    stuck: Option<Stuck>,
    /// The block after which fees were raised last.
    bumped_at: u64,
    /// When funds were read last.
    funds_at: Option<DateTime<Utc>>,
}

/// A wallet on the chain and in the database: the chain was read first, so the database has all that the chain has seen
/// of it.
pub(crate) struct View {
    pub(crate) wallet: KeptWallet,
    /// How many transactions of the wallet are mined.
    pub(crate) latest: u64,
    /// The same with those that wait.
    pub(crate) pending: u64,
    /// The last block.
    pub(crate) head: u64,
    pub(crate) base_fee: u128,
    /// The last final block.
    pub(crate) finalized: u64,
    /// The transactions that are signed and not mined by the database, lowest nonce first.
    pub(crate) open: Vec<OpenSlot>,
}

impl View {
    /// The open transactions that the chain has not mined either.
    pub(crate) fn unmined(&self) -> impl Iterator<Item = &OpenSlot> {
        self.open.iter().filter(|slot| slot.nonce >= self.latest)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    number: U64,
    base_fee_per_gas: Option<U128>,
}

impl Keeper {
    /// The keeper of the wallet whose key this is; `None` if the account is no wallet of this chain.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn of(
        chain: Chain,
        store: Store,
        signer: Arc<dyn Signer>,
        options: KeeperOptions,
    ) -> Result<Option<Self>, StoreError> {
        let wallets = store.wallets(chain.id(), &[signer.address()]).await?;
        Ok(wallets.into_iter().next().map(|wallet| Self {
            chain,
            store,
            signer,
            options,
            wallet: wallet.id,
            name: wallet.name,
            memory: Mutex::default(),
        }))
    }

    /// Keeps the wallet whenever no other process does, until `stop`.
    ///
    /// # Errors
    ///
    /// An error of the database that does not pass by itself.
    pub async fn keep(self, tidegate: &Tidegate, stop: CancellationToken) -> Result<(), tidegate::Error> {
        let singleton = tidegate.singleton(format!("evm_keeper_{}", self.wallet)).until(stop);
        let keeper = Arc::new(self);
        let task = move |epoch, stop| {
            let keeper = Arc::clone(&keeper);
            async move { keeper.run(epoch, stop).await }
        };
        singleton.run(task).await
    }

    /// Keeps the wallet under an epoch of the singleton until `stop`, or until a newer epoch does.
    async fn run(&self, epoch: i64, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(self.options.every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            match stop.run_until_cancelled(self.step(epoch)).await {
                None => return,
                Some(Ok(())) => {}
                Some(Err(KeeperError::Superseded)) => {
                    tracing::info!(wallet = self.name, epoch, "another process keeps the wallet");
                    return;
                }
                Some(Err(error)) => tracing::warn!(wallet = self.name, %error, "a step of the keeper was not finished"),
            }
        }
    }

    /// Does once what is due.
    ///
    /// # Errors
    ///
    /// When the chain or the database does not answer, or another epoch keeps the wallet.
    pub async fn step(&self, epoch: i64) -> Result<(), KeeperError> {
        let view = self.look(epoch).await?;
        // What is not mined does not wait for receipts that cannot be read.
        let recorded = self.record(epoch, &view).await;
        if view.wallet.state == "off" || self.is_out_of_step(epoch, &view).await? {
            return recorded;
        }
        self.fill(epoch, &view).await?;
        self.bump(epoch, &view).await?;
        self.rebroadcast(&view).await?;
        self.watch_funds(epoch, &view).await?;
        recorded
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn address(&self) -> Address {
        self.signer.address()
    }

    /// Reads the chain, then the database.
    async fn look(&self, epoch: i64) -> Result<View, KeeperError> {
        if !self.store.keeper_begin(self.wallet, epoch).await? {
            return Err(KeeperError::Superseded);
        }
        let (latest, pending, head, finalized) = self.read_chain().await?;
        let wallet = self.store.kept_wallet(self.wallet, epoch).await?.ok_or(KeeperError::Superseded)?;
        // A watcher may have opened it again since.
        let remembered = self.memory().open_from.filter(|_| !wallet.is_open);
        let known = remembered.unwrap_or(wallet.settled_nonce);
        if latest < wallet.next_nonce && latest >= wallet.settled_nonce {
            let dropped = self.store.reopen(self.wallet, epoch, latest, head.number.to()).await?;
            if dropped > 0 {
                let wallet = &self.name;
                tracing::warn!(
                    wallet,
                    dropped,
                    "a reorganisation of the chain dropped transactions: they are sent again"
                );
            }
        }
        let open = self.store.open_slots(self.wallet, known.min(latest).max(wallet.settled_nonce)).await?;
        self.memory().open_from = Some(open.first().map_or(wallet.next_nonce, |slot| slot.nonce));
        metrics::nonce(&self.name, "chain", latest);
        let lowest = open.iter().find(|slot| slot.nonce >= latest);
        let age = |slot: &OpenSlot| (wallet.at - slot.signed_at).to_std().ok();
        metrics::unmined(&self.name, lowest.and_then(age));
        metrics::hole(&self.name, lowest.filter(|slot| !slot.is_sent).and_then(age));
        Ok(View {
            wallet,
            latest,
            pending,
            head: head.number.to(),
            base_fee: head.base_fee_per_gas.unwrap_or_default().to(),
            finalized,
            open,
        })
    }

    /// The counts of the wallet's transactions, mined and with those that wait; the last block; the last final one. All
    /// as one endpoint has them.
    async fn read_chain(&self) -> Result<(u64, u64, Head, u64), KeeperError> {
        let count = |at| RpcCall::new("eth_getTransactionCount", (self.address(), at));
        let block = |at| RpcCall::new("eth_getBlockByNumber", (at, false));
        let calls = [
            count(BlockNumberOrTag::Latest),
            count(BlockNumberOrTag::Pending),
            block(BlockNumberOrTag::Latest),
            block(BlockNumberOrTag::Finalized),
        ];
        let mut answers = self.chain.batch(&calls).await?.into_iter();
        let mut next = || answers.next().unwrap_or(Err(RpcError::NoEndpoint(self.chain.id())));
        let latest: U64 = calls[0].parse(&next()?)?;
        let pending: U64 = calls[1].parse(&next()?)?;
        let head: Head = calls[2].parse(&next()?)?;
        let finalized = match next() {
            Ok(block) => calls[3].parse::<Option<Head>>(&block)?,
            Err(error) if error.class() == Class::BadBytes => None,
            Err(error) => return Err(error.into()),
        };
        let deep = head.number.to::<u64>().saturating_sub(self.options.lost_depth);
        let finalized = finalized.map_or(deep, |block| block.number.to());
        Ok((latest.to(), pending.to(), head, finalized))
    }

    /// Signs a transaction; its hash and its bytes.
    async fn sign(&self, transaction: TxEip1559) -> Result<(B256, Bytes), KeeperError> {
        let signed: Signed<TxEip1559> = self.signer.sign(transaction).await?;
        Ok((*signed.hash(), signed.encoded_2718().into()))
    }
}
