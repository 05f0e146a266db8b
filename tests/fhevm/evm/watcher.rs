//! A watcher applies each log once, whatever the endpoints and the chain do.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use alloy::{
    primitives::{Address, B256, U256, address, bytes},
    rpc::types::{Filter, Log, TransactionRequest},
};
use futures_util::future::join_all;
use sqlx::{PgConnection, PgPool};
use tidegate::Tidegate;
use tidegate_evm::{Chain, HandlerError, PageHandler, WatchOptions, Watcher};
use tidegate_fhevm_stand_ins::{
    chain::{Anvil, ChainOptions, Mining},
    rpc_proxy::{Fault, RpcProxy, Rule},
};
use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::{TestDatabase, eventually};

/// Where contracts are that emit a log of what they are called with, under `TOPIC`.
const OURS: Address = address!("00000000000000000000000000000000000000aa");
const OTHER: Address = address!("00000000000000000000000000000000000000bb");
const TOPIC: B256 = B256::with_last_byte(1);

/// Two endpoints of a chain, and a table of the logs that were applied.
struct Scene {
    database: TestDatabase,
    anvil: Anvil,
    first: RpcProxy,
    second: RpcProxy,
    chain: Chain,
    emitted: AtomicU64,
}

/// Stores what it is given.
#[derive(Clone, Default)]
struct Recorder {
    pages: Arc<AtomicU64>,
    drops: Arc<AtomicU64>,
    /// Whether the next page stops half-way, and what is notified then.
    stops: Arc<AtomicBool>,
    stopped: Arc<Notify>,
    fails: Arc<AtomicBool>,
}

impl PageHandler for Recorder {
    async fn apply(&self, transaction: &mut PgConnection, logs: &[Log]) -> Result<(), HandlerError> {
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
            false => Ok(()),
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
    async fn new() -> Scene {
        let database = TestDatabase::new().await;
        tidegate::schema::migrate_with(&database.url, &[tidegate_evm::migrations()])
            .await
            .unwrap();
        database
            .execute(
                "create table public.applied (
                   n bigint generated always as identity, block_number bigint, block_hash bytea, value bigint
                 )",
            )
            .await;
        let mining = Mining::OnDemand;
        let anvil = Anvil::start(ChainOptions {
            mining,
            ..ChainOptions::default()
        })
        .await
        .unwrap();
        for contract in [OURS, OTHER] {
            anvil
                .set_code(contract, bytes!("5f355f52600160205fa100"))
                .await
                .unwrap();
        }
        let first = RpcProxy::start(anvil.url(), 1).await.unwrap();
        let second = RpcProxy::start(anvil.url(), 2).await.unwrap();
        let chain = Chain::connect(31337, &[first.url().clone(), second.url().clone()])
            .await
            .unwrap();
        Scene {
            database,
            anvil,
            first,
            second,
            chain,
            emitted: AtomicU64::new(0),
        }
    }

    /// Makes a block with so many logs of ours.
    async fn block(&self, logs: u64) {
        for _ in 0..logs {
            self.emit(OURS).await;
        }
        self.anvil.mine(1).await.unwrap();
    }

    async fn emit(&self, contract: Address) {
        let number = self.emitted.fetch_add(1, Relaxed);
        let call = TransactionRequest::default()
            .from(self.anvil.keys()[0].address())
            .to(contract)
            .gas_limit(100_000)
            .input(U256::from(number).to_be_bytes_vec().into());
        self.anvil.send(&call).await.unwrap();
    }

    fn options(&self) -> WatchOptions {
        WatchOptions {
            after: Some(0),
            poll: Duration::from_millis(10),
            ..WatchOptions::new("gateway", vec![OURS], vec![TOPIC])
        }
    }

    fn watcher(&self, options: WatchOptions, recorder: &Recorder) -> Watcher<Recorder> {
        Watcher::new(
            self.chain.clone(),
            self.database.pool.clone(),
            options,
            recorder.clone(),
        )
    }

    /// Watches until the guard is dropped.
    fn watch(&self, epoch: i64, options: WatchOptions, recorder: &Recorder) -> (DropGuard, JoinHandle<()>) {
        let stop = CancellationToken::new();
        let watcher = self.watcher(options, recorder);
        let until = stop.clone();
        let task = tokio::spawn(async move { watcher.run(epoch, until).await });
        (stop.drop_guard(), task)
    }

    /// The logs of ours that the chain has, as (block, value).
    async fn on_chain(&self) -> Vec<(i64, i64)> {
        let filter = Filter::new().address(OURS).from_block(1);
        let logs: Vec<Log> = self.anvil.rpc().call("eth_getLogs", (filter,)).await.unwrap();
        logs.iter()
            .map(|log| (log.block_number.unwrap().try_into().unwrap(), value(log)))
            .collect()
    }

    async fn applied(&self) -> Vec<(i64, i64)> {
        applied(&self.database.pool).await
    }

    async fn cursor(&self) -> i64 {
        self.database
            .number("select coalesce(max(number), -1) from evm.cursor")
            .await
    }

    /// Waits until the cursor is at the end of the chain; then each log was applied once, in order.
    async fn caught_up(&self) {
        let head = i64::try_from(self.anvil.block_number().await.unwrap()).unwrap();
        eventually("the cursor is at the newest block", || async {
            self.cursor().await == head
        })
        .await;
        let expected = self.on_chain().await;
        eventually("all logs are applied", || async { self.applied().await == expected }).await;
    }
}

async fn applied(pool: &PgPool) -> Vec<(i64, i64)> {
    sqlx::query_as("select block_number, value from public.applied order by n")
        .fetch_all(pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn each_log_of_ours_is_applied_once_and_in_order() {
    let scene = Scene::new().await;
    scene.first.add(Rule::new("eth_getLogs", Fault::RepeatLogs));
    scene.first.add(Rule::new("eth_getLogs", Fault::Reverse));
    scene.emit(OTHER).await;
    scene.block(3).await;
    scene.block(0).await;
    scene.block(2).await;
    let recorder = Recorder::default();
    let _watching = scene.watch(1, scene.options(), &recorder);
    scene.caught_up().await;
    scene.block(2).await;
    scene.caught_up().await;
    assert_eq!(scene.applied().await.len(), 7);
    assert_eq!(
        recorder.pages.load(Relaxed),
        2,
        "blocks that are there together are one page"
    );
}

#[tokio::test]
async fn a_watcher_begins_at_the_newest_block() {
    let scene = Scene::new().await;
    scene.block(3).await;
    let options = WatchOptions {
        after: None,
        ..scene.options()
    };
    let _watching = scene.watch(1, options, &Recorder::default());
    eventually("it has begun", || async { scene.cursor().await == 1 }).await;
    scene.block(1).await;
    eventually("the next log is applied", || async {
        scene.applied().await == [(2, 3)]
    })
    .await;
}

#[tokio::test]
async fn a_reorganisation_is_undone_and_read_again() {
    let scene = Scene::new().await;
    let recorder = Recorder::default();
    let _watching = scene.watch(1, scene.options(), &recorder);
    for logs in 1..=4 {
        scene.block(logs).await;
        scene.caught_up().await;
    }
    // Transactions of a wallet in blocks 1 to 4; that of block 3 failed.
    scene
        .database
        .execute(
            "insert into evm.wallet (chain_id, address, name, first_nonce, system_identifier, timeline_id)
             select c, decode(repeat('0' || w, 20), 'hex'), 'wallet' || w, 0, 1, 1 from (values (31337, 1), (1, 2)) as v(c, w);
             insert into evm.tx
               (wallet, nonce, recipient, gas_limit, state, mined_hash, block_number, block_hash, status)
             select w.id, b.number, w.address, 1, 'mined', decode(repeat('07', 32), 'hex'), b.number, b.hash,
               case when b.number = 3 then 0 else 1 end
             from evm.wallet as w cross join evm.block as b where b.number > 0;
             insert into evm.tx (wallet, nonce, recipient, gas_limit, state)
             select w.id, 5, w.address, 1, 'signed' from evm.wallet as w",
        )
        .await;
    let states = |wallet: i64| {
        let sql = format!(
            "select string_agg(state || coalesce(block_number::text, '') || coalesce(status::text, ''), ' ' order by nonce)
             from evm.tx where wallet = {wallet}"
        );
        let database = &scene.database;
        async move { database.text(&sql).await.unwrap() }
    };
    let before = "mined11 mined21 mined30 mined41 signed";
    assert_eq!(states(1).await, before);

    scene.anvil.reorg(3).await.unwrap();
    scene.caught_up().await;
    assert_eq!(scene.applied().await, [(1, 0)]);
    assert_eq!(recorder.drops.load(Relaxed), 1);
    assert_eq!(states(1).await, "mined11 sent sent sent signed");
    assert_eq!(states(2).await, before, "another chain's wallet");
    eventually(
        "the new blocks are read in one page, and the old ones forgotten",
        || async {
            scene
                .database
                .text("select string_agg(number::text, ' ' order by number) from evm.block")
                .await
                .as_deref()
                == Some("0 1 4")
        },
    )
    .await;

    scene.block(2).await;
    scene.caught_up().await;
}

#[tokio::test]
async fn with_confirmations_no_log_of_a_dropped_block_is_applied() {
    let scene = Scene::new().await;
    let recorder = Recorder::default();
    let options = WatchOptions {
        confirmations: 3,
        ..scene.options()
    };
    let _watching = scene.watch(1, options, &recorder);
    for _ in 0..5 {
        scene.block(1).await;
    }
    eventually("the blocks with three after them are read", || async {
        scene.cursor().await == 2
    })
    .await;
    scene.anvil.reorg(3).await.unwrap();
    scene.block(1).await;
    scene.anvil.mine(3).await.unwrap();
    eventually("the new blocks are read", || async { scene.cursor().await == 6 }).await;
    assert_eq!(scene.applied().await, scene.on_chain().await);
    assert_eq!(recorder.drops.load(Relaxed), 0);
}

#[tokio::test]
async fn an_endpoint_that_is_behind_does_not_hide_logs() {
    let scene = Scene::new().await;
    let recorder = Recorder::default();
    let _watching = scene.watch(1, scene.options(), &recorder);
    scene.block(1).await;
    scene.caught_up().await;
    // It has the number of the newest block, and not yet the block: it answers with the logs that it has, and no error.
    scene.first.add(Rule::new("eth_getLogs", Fault::OldHead(2)));
    scene.first.add(Rule::new("eth_getBlockByNumber", Fault::OldHead(2)));
    scene.block(2).await;
    scene.block(2).await;
    scene.caught_up().await;
    // It is stuck, and says so.
    scene.first.clear();
    scene.first.add(Rule::all(Fault::OldHead(3)));
    scene.block(1).await;
    scene.block(1).await;
    scene.caught_up().await;
    assert!(scene.second.calls("eth_getLogs") > 0);
}

#[tokio::test]
async fn ranges_shrink_to_what_the_endpoints_allow() {
    let scene = Scene::new().await;
    for endpoint in [&scene.first, &scene.second] {
        endpoint.add(Rule::new("eth_getLogs", Fault::LimitRange(3)));
    }
    for _ in 0..40 {
        scene.block(1).await;
    }
    let recorder = Recorder::default();
    let options = WatchOptions {
        range_max: 16,
        ..scene.options()
    };
    let _watching = scene.watch(1, options, &recorder);
    scene.caught_up().await;
    let pages = recorder.pages.load(Relaxed);
    assert!(
        (20..40).contains(&pages),
        "ranges of two, and some of four that were refused: {pages}"
    );
}

#[tokio::test]
async fn a_page_that_is_interrupted_is_read_again() {
    let scene = Scene::new().await;
    scene.block(2).await;
    let recorder = Recorder::default();
    recorder.stops.store(true, Relaxed);
    let (stop, task) = scene.watch(1, scene.options(), &recorder);
    recorder.stopped.notified().await;
    drop(stop);
    task.await.unwrap();
    assert!(scene.applied().await.is_empty());
    assert_eq!(scene.cursor().await, 0);

    recorder.fails.store(true, Relaxed);
    let _watching = scene.watch(2, scene.options(), &recorder);
    scene.caught_up().await;
    assert_eq!(recorder.pages.load(Relaxed), 2, "one failed");
}

#[tokio::test]
async fn two_watchers_apply_each_log_once() {
    let scene = Scene::new().await;
    for _ in 0..30 {
        scene.block(2).await;
    }
    let recorder = Recorder::default();
    let options = || WatchOptions {
        range_max: 1,
        ..scene.options()
    };
    let both = [
        scene.watch(1, options(), &recorder),
        scene.watch(1, options(), &recorder),
    ];
    scene.caught_up().await;
    scene.anvil.reorg(4).await.unwrap();
    scene.block(2).await;
    scene.caught_up().await;

    // A later epoch ends those of earlier ones.
    let _watching = scene.watch(2, options(), &recorder);
    scene.block(1).await;
    scene.caught_up().await;
    for ended in join_all(both.map(|(_, task)| task)).await {
        ended.unwrap();
    }
}

#[tokio::test]
async fn a_reorganisation_deeper_than_the_watcher_remembers_stops_it() {
    let scene = Scene::new().await;
    scene.anvil.mine(10).await.unwrap();
    let recorder = Recorder::default();
    let options = WatchOptions {
        after: Some(8),
        ..scene.options()
    };
    let _watching = scene.watch(1, options, &recorder);
    scene.caught_up().await;
    scene.anvil.reorg(5).await.unwrap();
    scene.block(1).await;
    let asked = scene.first.calls("eth_blockNumber");
    eventually("it has looked several times", || async {
        scene.first.calls("eth_blockNumber") > asked + 5
    })
    .await;
    assert_eq!((scene.cursor().await, recorder.drops.load(Relaxed)), (10, 0));
    assert!(scene.applied().await.is_empty());
}

#[tokio::test]
async fn one_process_watches_and_another_takes_over() {
    let scene = Scene::new().await;
    let tidegate = Tidegate::from_pool(scene.database.pool.clone());
    let recorder = Recorder::default();
    let (watchers, stops): (Vec<_>, Vec<_>) = (0..2)
        .map(|_| (scene.watcher(scene.options(), &recorder), CancellationToken::new()))
        .unzip();
    let both = async {
        let runs = watchers
            .iter()
            .zip(&stops)
            .map(|(watcher, stop)| watcher.watch(&tidegate, stop.clone()));
        for run in join_all(runs).await {
            run.unwrap();
        }
    };
    let story = async {
        scene.block(1).await;
        scene.caught_up().await;
        stops[0].cancel();
        scene.block(1).await;
        scene.caught_up().await;
        stops[1].cancel();
    };
    tokio::join!(both, story);
    assert_eq!(recorder.pages.load(Relaxed), 2);
}
