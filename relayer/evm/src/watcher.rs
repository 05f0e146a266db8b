//! Reads the logs of a chain in order, each once.
//!
//! A page is a range of blocks, and one transaction: it moves the cursor by compare-and-set and applies the logs. So
//! any number of processes may watch, each log is applied once, and what a crash interrupts is read again. One process
//! at a time is enough, and [`Watcher::run`] is made for a singleton.
//!
//! The cursor has the hash of its block. If the chain has another block there, the watcher goes back to the last block
//! that it has read and that the chain still has, and undoes what the dropped blocks did. Blocks after the cursor that
//! wallets' transactions are mined in are compared with the chain, too.

mod range;
mod reorg;

use std::time::Duration;

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, B256},
    rpc::types::Log,
};
use sqlx::{PgConnection, PgPool};
use tidegate::Tidegate;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::range::{Page, Range};
use crate::{
    Chain, RpcError, metrics,
    store::{BlockId, Cursor, Store, StoreError, cursor},
};

/// What a handler failed with.
pub type HandlerError = Box<dyn std::error::Error + Send + Sync>;

/// What is done with the logs.
///
/// The chain is not to be asked while the transaction of a page is open.
pub trait PageHandler: Send + Sync {
    /// Reads what [`apply`](Self::apply) may need, before the transaction.
    ///
    /// # Errors
    ///
    /// When it cannot be read: the page is read again.
    fn prepare(&self) -> impl Future<Output = Result<(), HandlerError>> + Send {
        async { Ok(()) }
    }

    /// Applies the logs of a page, in the order of their blocks and indexes, in the transaction that moves the cursor.
    ///
    /// Returns the numbers of blocks that it has to know besides: then nothing is kept, and it gets the page again with
    /// these blocks in `others`, as the endpoint of the logs has them.
    ///
    /// # Errors
    ///
    /// When the page cannot be applied: it is read again.
    fn apply(
        &self,
        transaction: &mut PgConnection,
        logs: &[Log],
        others: &[BlockId],
    ) -> impl Future<Output = Result<Vec<u64>, HandlerError>> + Send;

    /// Undoes what the logs of all blocks from `from` on did: they are dropped, or will be read again.
    ///
    /// # Errors
    ///
    /// When it cannot be undone: the reorganisation is handled again.
    fn dropped(
        &self,
        transaction: &mut PgConnection,
        from: u64,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send;
}

/// What is watched.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// The name of the cursor: one for each set of addresses and topics.
    pub name: String,
    /// The contracts.
    pub addresses: Vec<Address>,
    /// The first topics of the events.
    pub topics: Vec<B256>,
    /// How many blocks a block has to have after it before its logs are read.
    pub confirmations: u64,
    /// The block after which the logs count; none: the newest one when the watcher begins for the first time.
    pub after: Option<u64>,
    /// The pause before new blocks are looked for.
    pub poll: Duration,
    /// The most blocks of a page.
    pub range_max: u64,
}

impl WatchOptions {
    /// Watches these events of these contracts: every two seconds, up to the newest block, by pages of 1,000 blocks.
    #[must_use]
    pub fn new(name: impl Into<String>, addresses: Vec<Address>, topics: Vec<B256>) -> WatchOptions {
        WatchOptions {
            name: name.into(),
            addresses,
            topics,
            confirmations: 0,
            after: None,
            poll: Duration::from_secs(2),
            range_max: 1000,
        }
    }
}

/// Reads the logs of a chain.
pub struct Watcher<H> {
    chain: Chain,
    pool: PgPool,
    store: Store,
    options: WatchOptions,
    handler: H,
}

/// Why a step was not finished. The next one begins anew.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("another process watches")]
    Superseded,
    #[error("the cursor is of another chain: give this watcher another name")]
    OtherChain,
    #[error("the chain has dropped all blocks that the watcher remembers, down to {0}: check its endpoints")]
    TooDeep(u64),
    #[error(transparent)]
    Endpoint(#[from] RpcError),
    #[error(transparent)]
    Database(#[from] StoreError),
    #[error("the logs could not be applied: {0}")]
    Handler(#[from] HandlerError),
}

impl From<sqlx::Error> for WatchError {
    fn from(error: sqlx::Error) -> WatchError {
        WatchError::Database(error.into())
    }
}

/// How long a watcher says nothing more after it has told of an error: it tries again at every poll.
const QUIET: Duration = Duration::from_secs(60);

/// When an error was told of last.
#[derive(Default)]
struct Told(Option<Instant>);

impl Told {
    /// Whether to tell of an error now.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|last| now.duration_since(last) >= QUIET);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

/// What a step did.
enum Step {
    /// It moved the cursor, or another process did.
    Moved,
    /// There is no new block.
    UpToDate,
}

impl<H: PageHandler> Watcher<H> {
    /// Watches a chain. The database has the cursor, and what the handler writes.
    #[must_use]
    pub fn new(chain: Chain, pool: PgPool, options: WatchOptions, handler: H) -> Watcher<H> {
        let store = Store::new(pool.clone());
        Watcher { chain, pool, store, options, handler }
    }

    /// Watches in one process of the fleet at a time, until `stop` is cancelled.
    ///
    /// # Errors
    ///
    /// A database error that does not pass by itself.
    pub async fn watch(&self, tidegate: &Tidegate, stop: CancellationToken) -> Result<(), tidegate::Error> {
        let name = format!("evm.watcher.{}", self.options.name);
        let task = async |epoch, cancelled| self.run(epoch, cancelled).await;
        tidegate.singleton(name).until(stop).run(task).await
    }

    /// Watches under this epoch, until it is cancelled or a later epoch watches.
    pub async fn run(&self, epoch: i64, cancelled: CancellationToken) {
        let mut range = Range::new(self.options.range_max);
        let mut told = Told::default();
        while let Some(step) = cancelled.run_until_cancelled(self.step(epoch, &mut range)).await {
            let name = &self.options.name;
            match step {
                Ok(Step::Moved) => continue,
                Ok(Step::UpToDate) => {}
                Err(WatchError::Superseded) => return,
                Err(error) if !told.is_due(Instant::now()) => {
                    tracing::debug!(watcher = name, %error, "a page was not read again");
                }
                Err(error @ (WatchError::TooDeep(_) | WatchError::OtherChain)) => {
                    tracing::error!(watcher = name, %error, "a watcher stands still");
                }
                Err(error) => tracing::warn!(watcher = name, %error, "a page was not read, it is read again"),
            }
            cancelled.run_until_cancelled(sleep(self.options.poll)).await;
        }
    }

    /// Reads one page, or handles one reorganisation.
    async fn step(&self, epoch: i64, range: &mut Range) -> Result<Step, WatchError> {
        let cursor = self.cursor().await?;
        if cursor.epoch > epoch {
            return Err(WatchError::Superseded);
        }
        // An endpoint may be stuck while the others go on.
        let head = self.chain.block_number().await?.max(self.chain.head());
        let last = head.saturating_sub(self.options.confirmations);
        let to = last.min(cursor.at.number + range.blocks());
        self.unmine(cursor.at.number).await?;
        let mut others = Vec::new();
        loop {
            let page = range::read(&self.chain, cursor.at, to, &others, &self.options).await;
            match range.noted(page)? {
                None => return self.go_back(epoch, cursor.at).await,
                Some(page) if page.to.number == cursor.at.number => return Ok(Step::UpToDate),
                Some(page) => match self.apply(epoch, cursor.at, &page).await? {
                    needed if needed.is_empty() => return Ok(Step::Moved),
                    needed => others.extend(needed),
                },
            }
        }
    }

    async fn cursor(&self) -> Result<Cursor, WatchError> {
        let (name, chain) = (&self.options.name, self.chain.id());
        if let Some(cursor) = self.store.cursor(name, chain).await? {
            return Ok(cursor);
        }
        let after = self.options.after.map_or(BlockNumberOrTag::Latest, BlockNumberOrTag::Number);
        let header = self.chain.header(after).await?.ok_or_else(|| RpcError::Unexpected {
            method: "eth_getBlockByNumber",
            cause: format!("block {after} is missing"),
        })?;
        let started = self.store.cursor_start(name, chain, BlockId::of(&header)).await?;
        started.ok_or(WatchError::OtherChain)
    }

    /// Applies a page and moves the cursor to its end; or returns which other blocks it needs.
    async fn apply(&self, epoch: i64, from: BlockId, page: &Page) -> Result<Vec<u64>, WatchError> {
        if !page.logs.is_empty() {
            self.handler.prepare().await?;
        }
        let mut transaction = self.pool.begin().await?;
        if !cursor::move_to(&mut transaction, &self.options.name, epoch, from, page.to).await? {
            return Ok(Vec::new());
        }
        if !page.logs.is_empty() {
            let needed = self.handler.apply(&mut transaction, &page.logs, &page.others).await?;
            if !needed.is_empty() {
                return Ok(needed);
            }
        }
        transaction.commit().await?;
        metrics::cursor(self.chain.id(), page.to.number);
        Ok(Vec::new())
    }

    /// Goes back to the last block that the chain still has, and undoes what later ones did.
    async fn go_back(&self, epoch: i64, from: BlockId) -> Result<Step, WatchError> {
        let name = &self.options.name;
        let blocks = self.store.cursor_blocks(name).await?;
        let Some(kept) = reorg::last_kept(&self.chain, &blocks).await? else {
            return Err(WatchError::TooDeep(blocks.last().map_or(0, |block| block.number)));
        };
        self.unmine(kept.number).await?;
        let mut transaction = self.pool.begin().await?;
        if !cursor::move_to(&mut transaction, name, epoch, from, kept).await? {
            return Ok(Step::Moved);
        }
        self.handler.dropped(&mut transaction, kept.number + 1).await?;
        transaction.commit().await?;
        tracing::warn!(
            watcher = name,
            from = from.number,
            to = kept.number,
            "the chain has dropped blocks: their logs are undone"
        );
        metrics::reorganised(self.chain.id(), from.number - kept.number, kept.number);
        Ok(Step::Moved)
    }

    /// Sets transactions back to be sent again that are mined in blocks after this one which the chain has dropped.
    async fn unmine(&self, after: u64) -> Result<(), WatchError> {
        let mined = self.store.mined_after(self.chain.id(), after).await?;
        let dropped = reorg::dropped(&self.chain, &mined).await?;
        if !dropped.is_empty() {
            let unmined = self.store.unmine(self.chain.id(), after, &dropped).await?;
            tracing::warn!(
                watcher = self.options.name,
                unmined,
                "the chain has dropped blocks: their transactions are sent again"
            );
        }
        Ok(())
    }
}
