//! A chain with contracts that emit logs, and a handler that stores them: what the tests of the watcher begin with.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use alloy::{
    primitives::{Address, B256, U256, address, bytes},
    rpc::types::{Filter, Log, TransactionRequest},
};
use sqlx::{PgConnection, PgPool};
use tidegate_evm::{Chain, HandlerError, PageHandler, WatchOptions, Watcher, store::BlockId};
use tidegate_fhevm_stand_ins::{
    chain::{Anvil, ChainOptions, Mining},
    rpc_proxy::RpcProxy,
};
use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::{TestDatabase, eventually};

/// Where contracts are that emit a log of what they are called with, under `TOPIC`.
pub const OURS: Address = address!("00000000000000000000000000000000000000aa");
pub const OTHER: Address = address!("00000000000000000000000000000000000000bb");
pub const TOPIC: B256 = B256::with_last_byte(1);

/// Two endpoints of a chain, and a table of the logs that were applied.
pub struct Scene {
    pub database: TestDatabase,
    pub anvil: Anvil,
    pub first: RpcProxy,
    pub second: RpcProxy,
    chain: Chain,
    emitted: AtomicU64,
}

/// Stores what it is given.
#[derive(Clone, Default)]
pub struct Recorder {
    pub pages: Arc<AtomicU64>,
    pub drops: Arc<AtomicU64>,
    /// Whether the next page stops half-way, and what is notified then.
    pub stops: Arc<AtomicBool>,
    pub stopped: Arc<Notify>,
    pub fails: Arc<AtomicBool>,
    /// The number of a block that it has to know besides, and what it was told of it.
    pub needs: Option<u64>,
    pub told: Arc<Mutex<Vec<BlockId>>>,
    /// Whether the cursor moves in a transaction of its own, which is wrong.
    pub is_mutant: bool,
}

impl PageHandler for Recorder {
    async fn apply(
        &self,
        transaction: &mut PgConnection,
        logs: &[Log],
        others: &[BlockId],
    ) -> Result<Vec<u64>, HandlerError> {
        self.told.lock().unwrap().extend(others);
        if self.is_mutant {
            for statement in ["commit", "begin"] {
                sqlx::query(statement).execute(&mut *transaction).await?;
            }
        }
        for log in logs {
            sqlx::query("insert into public.applied (block_number, block_hash, value) values ($1, $2, $3)")
                .bind(i64::try_from(log.block_number.unwrap())?)
                .bind(log.block_hash.unwrap().as_slice())
                .bind(value(log))
                .execute(&mut *transaction)
                .await?;
        }
        if self.stops.swap(false, Relaxed) {
            self.stopped.notify_one();
            std::future::pending::<()>().await;
        }
        self.pages.fetch_add(1, Relaxed);
        match self.fails.swap(false, Relaxed) {
            true => Err("a handler that fails once".into()),
            // Told of it, it needs nothing.
            false => Ok(self.needs.filter(|_| others.is_empty()).into_iter().collect()),
        }
    }

    async fn dropped(&self, transaction: &mut PgConnection, from: u64) -> Result<(), HandlerError> {
        self.drops.fetch_add(1, Relaxed);
        sqlx::query("delete from public.applied where block_number >= $1")
            .bind(i64::try_from(from)?)
            .execute(transaction)
            .await?;
        Ok(())
    }
}

fn value(log: &Log) -> i64 {
    U256::from_be_slice(&log.data().data).to()
}

impl Scene {
    pub async fn new() -> Scene {
        let database = TestDatabase::new().await;
        tidegate::internals::schema::migrate_with(&database.url, &[tidegate_evm::migrations()]).await.unwrap();
        database
            .execute(
                "create table public.applied (
                   n bigint generated always as identity, block_number bigint, block_hash bytea, value bigint
                 )",
            )
            .await;
        let mining = Mining::OnDemand;
        let anvil = Anvil::start(ChainOptions { mining, ..ChainOptions::default() }).await.unwrap();
        for contract in [OURS, OTHER] {
            anvil.set_code(contract, bytes!("5f355f52600160205fa100")).await.unwrap();
        }
        let first = RpcProxy::start(anvil.url(), 1).await.unwrap();
        let second = RpcProxy::start(anvil.url(), 2).await.unwrap();
        let chain = Chain::connect(31337, &[first.url().clone(), second.url().clone()]).await.unwrap();
        Scene { database, anvil, first, second, chain, emitted: AtomicU64::new(0) }
    }

    /// Makes a block with so many logs of ours.
    pub async fn block(&self, logs: u64) {
        for _ in 0..logs {
            self.emit(OURS).await;
        }
        self.anvil.mine(1).await.unwrap();
    }

    pub async fn emit(&self, contract: Address) {
        let number = self.emitted.fetch_add(1, Relaxed);
        let call = TransactionRequest::default()
            .from(self.anvil.keys()[0].address())
            .to(contract)
            .gas_limit(100_000)
            .input(U256::from(number).to_be_bytes_vec().into());
        self.anvil.send(&call).await.unwrap();
    }

    /// A wallet, with a transaction that is noted as mined in each of these blocks.
    pub async fn mined_in(&self, blocks: &[u64]) {
        self.database
            .execute(
                "insert into evm.wallet (chain_id, address, name, first_nonce, system_identifier, timeline_id)
                 values (31337, decode(repeat('01', 20), 'hex'), 'wallet', 0, 1, 1)",
            )
            .await;
        for number in blocks {
            let block = self.anvil.block(*number).await.unwrap().unwrap();
            sqlx::query(
                "insert into evm.tx
                   (wallet, nonce, recipient, gas_limit, state, mined_hash, block_number, block_hash, status)
                 select w.id, $1, w.address, 1, 'mined', decode(repeat('07', 32), 'hex'), $1, $2, 1
                 from evm.wallet as w",
            )
            .bind(i64::try_from(*number).unwrap())
            .bind(block.header.hash.as_slice())
            .execute(&self.database.pool)
            .await
            .unwrap();
        }
    }

    pub fn options(&self) -> WatchOptions {
        WatchOptions {
            after: Some(0),
            poll: Duration::from_millis(10),
            ..WatchOptions::new("gateway", vec![OURS], vec![TOPIC])
        }
    }

    pub fn watcher(&self, options: WatchOptions, recorder: &Recorder) -> Watcher<Recorder> {
        Watcher::new(self.chain.clone(), self.database.pool.clone(), options, recorder.clone())
    }

    /// Watches until the guard is dropped.
    pub fn watch(&self, epoch: i64, options: WatchOptions, recorder: &Recorder) -> (DropGuard, JoinHandle<()>) {
        let stop = CancellationToken::new();
        let watcher = self.watcher(options, recorder);
        let until = stop.clone();
        let task = tokio::spawn(async move { watcher.run(epoch, until).await });
        (stop.drop_guard(), task)
    }

    /// The logs of ours that the chain has, as (block, value).
    pub async fn on_chain(&self) -> Vec<(i64, i64)> {
        let filter = Filter::new().address(OURS).from_block(1);
        let logs: Vec<Log> = self.anvil.rpc().call("eth_getLogs", (filter,)).await.unwrap();
        logs.iter().map(|log| (log.block_number.unwrap().try_into().unwrap(), value(log))).collect()
    }

    pub async fn applied(&self) -> Vec<(i64, i64)> {
        applied(&self.database.pool).await
    }

    pub async fn cursor(&self) -> i64 {
        self.database.number("select coalesce(max(number), -1) from evm.cursor").await
    }

    /// Waits until the cursor is at the end of the chain; then each log was applied once, in order.
    pub async fn caught_up(&self) {
        let head = i64::try_from(self.anvil.block_number().await.unwrap()).unwrap();
        eventually("the cursor is at the newest block", || async { self.cursor().await == head }).await;
        let expected = self.on_chain().await;
        eventually("all logs are applied", || async { self.applied().await == expected }).await;
    }
}

async fn applied(pool: &PgPool) -> Vec<(i64, i64)> {
    sqlx::query_as("select block_number, value from public.applied order by n").fetch_all(pool).await.unwrap()
}
