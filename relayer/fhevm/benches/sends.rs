//! What one transaction per request costs, over a sender that only signs, sends and awaits receipts with as many
//! transactions under way.
//!
//! Both run on the same anvil, one after the other, and ask for receipts every 250 ms. The requests are claimed before;
//! everything is durable, on a PostgreSQL of the benchmark's own or that of `DATABASE_URL`.
//! `SECONDS_EACH` is how long a run lasts at its target rate (10).
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a benchmark stops at the first thing that is wrong"
)]

#[path = "../../../benches/support/mod.rs"]
mod support;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use alloy::{
    consensus::TxEip1559,
    eips::Encodable2718,
    primitives::{Address, B256, Bytes, TxKind, U256},
    signers::local::PrivateKeySigner,
    sol_types::SolCall,
};
use futures_util::future::join_all;
use support::{BATCH, Bench, number};
use tidegate::{
    internals::schema,
    request::{RequestId, Stage},
};
use tidegate_cli::database_location::DatabaseLocation;
use tidegate_evm::{Chain, LocalSigner, Order, Sender, SenderOptions, Sending, Signer, store::Store, wallets};
use tidegate_fhevm_stand_ins::{
    abi::Counter,
    chain::{Anvil, ChainOptions, Mining},
    deploy::Operator,
};
use tokio::sync::{Semaphore, oneshot};

const RECEIPTS_EVERY: Duration = Duration::from_millis(250);

/// What is compared.
struct Run {
    name: &'static str,
    mining: Mining,
    wallets: usize,
    in_flight_max: u32,
    /// Transactions; for a run at a rate, the pause between two.
    count: usize,
    pause: Option<Duration>,
}

fn main() {
    support::run(measure());
}

async fn measure() {
    let seconds = number("SECONDS_EACH", 10);
    let runs = [
        Run {
            name: "automine, 1 wallet, 1024 under way",
            mining: Mining::Automatic,
            wallets: 1,
            in_flight_max: 1024,
            count: 300 * seconds,
            pause: None,
        },
        Run {
            name: "1 s blocks, 1 wallet, 1024 under way",
            mining: Mining::Every(1),
            wallets: 1,
            in_flight_max: 1024,
            count: 300 * seconds,
            pause: None,
        },
        Run {
            name: "1 s blocks, 1 wallet, 64 under way",
            mining: Mining::Every(1),
            wallets: 1,
            in_flight_max: 64,
            count: 60 * seconds,
            pause: None,
        },
        Run {
            name: "1 s blocks, 3 wallets, 64 under way each",
            mining: Mining::Every(1),
            wallets: 3,
            in_flight_max: 64,
            count: 180 * seconds,
            pause: None,
        },
        Run {
            name: "automine, 1 wallet, 20 tx/s",
            mining: Mining::Automatic,
            wallets: 1,
            in_flight_max: 1024,
            count: 20 * seconds,
            pause: Some(Duration::from_millis(50)),
        },
    ];
    let location = support::location().await;
    println!("{:<42} {:>9} {:>9} {:>6}  time of one: p50, p99 in ms", "", "raw tx/s", "tx/s", "ratio");
    for run in &runs {
        let raw = measure_raw(run).await;
        let sender = measure_sender(run, &location).await;
        let (raw_rate, rate) = (raw.rate(), sender.rate());
        println!(
            "{:<42} {raw_rate:>9.1} {rate:>9.1} {:>5.0}%  raw {:.0}, {:.0}; sender {:.0}, {:.0}",
            run.name,
            rate / raw_rate * 100.0,
            raw.percentile(50),
            raw.percentile(99),
            sender.percentile(50),
            sender.percentile(99),
        );
    }
}

/// How long all and each took.
struct Took {
    all: Duration,
    each: Vec<Duration>,
}

impl Took {
    fn rate(&self) -> f64 {
        self.each.len() as f64 / self.all.as_secs_f64()
    }

    fn percentile(&self, percent: usize) -> f64 {
        let at = (self.each.len() * percent / 100).min(self.each.len() - 1);
        self.each[at].as_secs_f64() * 1000.0
    }
}

/// Runs all sends, as many at once as may be or with a pause between two.
async fn time<F>(run: &Run, sends: impl Iterator<Item = F>) -> Took
where
    F: Future<Output = ()> + Send + 'static,
{
    let began = Instant::now();
    let places = Arc::new(Semaphore::new(run.in_flight_max as usize * run.wallets));
    let mut tasks = Vec::new();
    let mut next = tokio::time::Instant::now();
    for send in sends {
        if let Some(pause) = run.pause {
            tokio::time::sleep_until(next).await;
            next += pause;
        }
        let place = Arc::clone(&places).acquire_owned().await.unwrap();
        tasks.push(tokio::spawn(async move {
            let began = Instant::now();
            send.await;
            drop(place);
            began.elapsed()
        }));
    }
    let mut each: Vec<_> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
    let all = began.elapsed();
    each.sort_unstable();
    Took { all, each }
}

/// A chain with a counter, on which the keys have ether.
async fn start(run: &Run) -> (Anvil, Chain, Address, Vec<PrivateKeySigner>) {
    let options = ChainOptions { mining: run.mining, ..ChainOptions::default() };
    let anvil = Anvil::start(options).await.unwrap();
    let mut operator = Operator::new(anvil.rpc()).await.unwrap();
    let contract = operator.deploy("Counter", &[]).await.unwrap();
    operator.mined().await.unwrap();
    let chain = Chain::connect(anvil.chain_id(), &[anvil.url().clone()]).await.unwrap();
    let keys = anvil.keys()[..run.wallets].to_vec();
    (anvil, chain, contract, keys)
}

fn calldata(number: u64) -> Bytes {
    let order = B256::left_padding_from(&number.to_be_bytes());
    Counter::countCall { order }.abi_encode().into()
}

/// Signs with nonces that it counts itself.
struct Raw {
    chain: Chain,
    key: PrivateKeySigner,
    nonce: tokio::sync::Mutex<u64>,
    waits: Mutex<HashMap<B256, oneshot::Sender<()>>>,
}

impl Raw {
    async fn send(&self, to: Address, input: Bytes) {
        let fees = self.chain.suggested_fees().await.unwrap();
        let receipt = {
            let mut nonce = self.nonce.lock().await;
            let transaction = TxEip1559 {
                chain_id: self.chain.id(),
                nonce: *nonce,
                gas_limit: 120_000,
                max_fee_per_gas: fees.max_fee,
                max_priority_fee_per_gas: fees.tip,
                to: TxKind::Call(to),
                value: U256::ZERO,
                input,
                ..TxEip1559::default()
            };
            let signed = LocalSigner::from(self.key.clone()).sign(transaction).await.unwrap();
            let (sender, receipt) = oneshot::channel();
            self.waits.lock().unwrap().insert(*signed.hash(), sender);
            let answer = self.chain.send_raw(&signed.encoded_2718().into()).await;
            assert!(answer.message.is_empty(), "{answer:?}");
            *nonce += 1;
            receipt
        };
        receipt.await.unwrap();
    }

    async fn ask(&self) {
        let hashes: Vec<_> = self.waits.lock().unwrap().keys().copied().collect();
        let receipts = self.chain.receipts(&hashes).await.unwrap();
        for receipt in receipts.into_iter().flatten() {
            let wait = self.waits.lock().unwrap().remove(&receipt.transaction_hash);
            wait.unwrap().send(()).unwrap();
        }
    }
}

async fn measure_raw(run: &Run) -> Took {
    let (_anvil, chain, contract, keys) = start(run).await;
    let raws: Vec<_> = keys
        .into_iter()
        .map(|key| {
            Arc::new(Raw { chain: chain.clone(), key, nonce: tokio::sync::Mutex::default(), waits: Mutex::default() })
        })
        .collect();
    let asking = raws.clone();
    let loops = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(RECEIPTS_EVERY);
        loop {
            ticks.tick().await;
            join_all(asking.iter().map(|raw| raw.ask())).await;
        }
    });
    let sends = (0..run.count).map(|number| {
        let raw = Arc::clone(&raws[number % raws.len()]);
        async move { raw.send(contract, calldata(number as u64)).await }
    });
    let took = time(run, sends).await;
    loops.abort();
    took
}

async fn measure_sender(run: &Run, location: &DatabaseLocation) -> Took {
    let (_anvil, chain, contract, keys) = start(run).await;
    let bench = Bench::new(location).await;
    schema::migrate_with(&bench.url, &[tidegate_evm::migrations()]).await.unwrap();
    let store = Store::new(bench.pool.clone());
    for key in &keys {
        let name = format!("w{}", key.address()).to_lowercase();
        wallets::adopt(&chain, &store, key.address(), &name, run.in_flight_max).await.unwrap();
    }
    bench.submit(run.count.next_multiple_of(2 * BATCH)).await;
    let hour = Duration::from_secs(3600);
    let mut claimed = Vec::new();
    while claimed.len() < run.count {
        claimed
            .extend(bench.store.claim(Stage::Tx, "tx", "bench", run.count - claimed.len(), hour, None).await.unwrap());
    }
    let signers = keys.into_iter().map(|key| Arc::new(LocalSigner::from(key)) as Arc<dyn Signer>).collect();
    let mut options = SenderOptions::default();
    options.receipts_every = RECEIPTS_EVERY;
    let sender = Sender::new(chain, bench.pool.clone(), signers, options);
    let number = AtomicU64::new(0);
    let sends = claimed.into_iter().map(|claimed| {
        let order = Order {
            request: RequestId(claimed.lease.id),
            lease: claimed.lease,
            to: contract,
            calldata: calldata(number.fetch_add(1, Ordering::Relaxed)),
        };
        let sender = sender.clone();
        async move {
            let outcome = sender.send(&order).await;
            assert!(matches!(outcome, Sending::Mined(_)), "{outcome:?}");
        }
    });
    let took = time(run, sends).await;
    drop(sender);
    bench.drop().await;
    took
}
