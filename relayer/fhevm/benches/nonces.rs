//! How long the transaction that takes nonces needs while another session keeps an old snapshot, over the same without
//! it: nothing that the snapshot keeps dead may slow it down.
//!
//! 30,000 (`TRANSACTIONS`) in batches of eight, each recorded as sent and as mined before the next batch.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::cast_possible_wrap,
    reason = "a benchmark stops at the first thing that is wrong"
)]

#[path = "../../../benches/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use sqlx::{Connection, Executor, PgConnection};
use support::{BATCH, Bench, number};
use tidegate::{internals::schema, request::Stage};
use tidegate_cli::database_location::DatabaseLocation;

const AT_ONCE: usize = 8;

/// The bytes of a signed transaction that proves an encrypted input.
const RAW: usize = 19_000;

fn main() {
    support::run(measure());
}

async fn measure() {
    let location = support::location().await;
    let transactions = number("TRANSACTIONS", 30_000);
    let mut scenes = [
        Scene::new(&location, "without a snapshot", transactions).await,
        Scene::new(&location, "with an old snapshot", transactions).await,
    ];
    let mut old = PgConnection::connect(&scenes[1].bench.url).await.unwrap();
    old.execute("begin isolation level repeatable read; select count(*) from evm.tx").await.unwrap();
    // In turns, because other programs delay both.
    for first in (0..transactions).step_by(AT_ONCE) {
        for scene in &mut scenes {
            scene.allocate(first).await;
        }
    }
    old.close().await.unwrap();
    println!("{:<22} {:>9} {:>9} {:>22}", "", "p50 in ms", "p99", "p99 of the last tenth");
    for scene in scenes {
        let last = percentile(&scene.times[scene.times.len() * 9 / 10..], 99);
        let [p50, p99] = [50, 99].map(|percent| percentile(&scene.times, percent));
        println!("{:<22} {p50:>9.2} {p99:>9.2} {last:>22.2}", scene.name);
        scene.session.close().await.unwrap();
        scene.bench.drop().await;
    }
}

fn percentile(times: &[Duration], percent: usize) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() * percent / 100].as_secs_f64() * 1000.0
}

/// A database with one wallet and claimed requests.
struct Scene {
    name: &'static str,
    bench: Bench,
    session: PgConnection,
    times: Vec<Duration>,
}

impl Scene {
    async fn new(location: &DatabaseLocation, name: &'static str, transactions: usize) -> Self {
        let bench = Bench::with_suffix(location, &format!("_{}", name.split(' ').next().unwrap())).await;
        schema::migrate_with(&bench.url, &[tidegate_evm::migrations()]).await.unwrap();
        bench.submit(transactions.next_multiple_of(2 * BATCH)).await;
        let mut session = PgConnection::connect(&bench.url).await.unwrap();
        let adopt = "select evm.wallet_adopt(1, '\\x0000000000000000000000000000000000000001', 'one', 0, 64)";
        session.execute(adopt).await.unwrap();
        Self { name, bench, session, times: Vec::new() }
    }

    /// Takes nonces for the next requests, and records that their transactions are mined.
    async fn allocate(&mut self, first: usize) {
        let hour = Duration::from_secs(3600);
        let claimed = self.bench.store.claim(Stage::Tx, "tx", "bench", AT_ONCE, hour, None).await.unwrap();
        let (tokens, ids): (Vec<_>, Vec<_>) =
            claimed.iter().map(|claimed| (claimed.lease.token, claimed.lease.id)).unzip();
        let hashes: Vec<_> = (first..first + ids.len()).map(hash).collect();
        let began = Instant::now();
        let mut transaction = self.session.begin().await.unwrap();
        let next: i64 = sqlx::query_scalar("select next_nonce from evm.allocation_begin(1::smallint, $1, $2, 100)")
            .bind(tokens)
            .bind(&ids)
            .fetch_one(&mut *transaction)
            .await
            .unwrap();
        let insert = "select evm.allocation_insert(1::smallint, $1, 2, 1, $2, $3, $4, $5, $6, $7)";
        let stored: i64 = sqlx::query_scalar(insert)
            .bind(next)
            .bind(&ids)
            .bind(vec![vec![1; 20]; ids.len()])
            .bind(vec![vec![1; RAW]; ids.len()])
            .bind(vec![21_000_i64; ids.len()])
            .bind(&hashes)
            .bind(vec![vec![1; RAW]; ids.len()])
            .fetch_one(&mut *transaction)
            .await
            .unwrap();
        transaction.commit().await.unwrap();
        self.times.push(began.elapsed());
        assert_eq!(stored, ids.len() as i64);
        for noted in [
            "select evm.note_sent($1, array_fill('accepted'::text, array[cardinality($1)]))",
            "select evm.note_mined($1, array_fill(1::bigint, array[cardinality($1)]), $1,
               array_fill(1::smallint, array[cardinality($1)]))",
        ] {
            sqlx::query(noted).bind(&hashes).execute(&mut self.session).await.unwrap();
        }
    }
}

fn hash(number: usize) -> Vec<u8> {
    [[0; 24].as_slice(), &(number as u64).to_be_bytes()].concat()
}
