//! Requests per second: submit, drain and the whole life of `direct` requests with a no-op stage.
//!
//! Worker processes are this program again. Everything is durable (`fsync`, `synchronous_commit` on), on a PostgreSQL
//! that shares the machine. Figures are noisy: compare within one run.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a benchmark stops at the first thing that is wrong"
)]

mod support;

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use support::{BATCH, Bench, number};
use tidegate::{
    internals::{
        database::{self, PoolSettings},
        store::Store,
        worker::{self, WorkerOptions},
    },
    request::Request,
    stage::{JsonText, Receipt, Sent, Stages, Transact},
};
use tidegate_cli::database_location::DatabaseLocation;
use tokio_util::sync::CancellationToken;

/// Options of workers: tuned for a stage that takes no time, or the defaults.
const TUNED: &str = "tuned";
const DEFAULTS: &str = "defaults";

/// Takes each request at once, and its receipt is the response.
struct Noop;

impl Transact for Noop {
    type Payload = JsonText;

    async fn send(&self, _: &Request) -> Sent {
        Sent::Receipt(Receipt { reference: None, response: Some(true.into()) })
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    support::run(async {
        match arguments.get(1).map(String::as_str) {
            Some("--worker") => work(&arguments[2], arguments[3] == TUNED).await,
            _ => measure().await,
        }
    });
}

async fn work(url: &str, tuned: bool) {
    let pool = database::connect(url, &PoolSettings::default()).await.unwrap();
    let stages = ["public_decrypt", "user_decrypt", "input_proof", "direct"]
        .into_iter()
        .fold(Stages::new(), |stages, kind| stages.transact(kind, Noop));
    let mut options = WorkerOptions { queues: vec!["tx".to_owned()], ..WorkerOptions::default() };
    if tuned {
        options.batch = BATCH;
        options.concurrency = 4 * BATCH;
    }
    worker::run(Store::new(pool), stages, options, CancellationToken::new()).await.unwrap();
}

async fn measure() {
    let requests = number("REQUESTS", 100_000);
    let rounds = number("ROUNDS", 3);
    let location = support::location().await;
    println!("{requests} direct requests of 100 bytes, no-op stage, batches of {BATCH}; median of {rounds} rounds");
    println!(
        "{:<34} {:>10} {:>24} {:>8} {:>12} {:>14}",
        "what", "requests/s", "rounds", "HOT", "WAL/request", "disk/request"
    );
    for options in [TUNED, DEFAULTS] {
        for processes in [1, 2, 4] {
            report(&format!("drain, {processes} processes, {options}"), rounds, || {
                drain(&location, requests, processes, options)
            })
            .await;
        }
    }
    report("whole life, 2 worker processes", rounds, || whole_life(&location, requests, 2)).await;
    report("submit, 2 sessions, batches", rounds, || submit_only(&location, requests)).await;
}

struct Figure {
    per_second: f64,
    hot: f64,
    wal_bytes: f64,
    /// Of all tables with their indexes, but for the queues, whose messages go.
    disk_bytes: f64,
}

async fn report<F, Fut>(what: &str, rounds: usize, run: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Figure>,
{
    let mut figures = Vec::new();
    for _ in 0..rounds {
        figures.push(run().await);
    }
    figures.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    let all: Vec<_> = figures.iter().map(|figure| format!("{:.0}", figure.per_second)).collect();
    let median = &figures[figures.len() / 2];
    println!(
        "{what:<34} {:>10.0} {:>24} {:>6.1} % {:>10.0} B {:>12.0} B",
        median.per_second,
        all.join(" "),
        median.hot * 100.0,
        median.wal_bytes,
        median.disk_bytes
    );
}

async fn done(bench: &Bench, requests: usize) {
    loop {
        // `queue_drain` is cheap to read at any size of the tables.
        let drained: i64 = sqlx::query_scalar("select coalesce(sum(drained), 0) from tidegate.queue_drain")
            .fetch_one(&bench.pool)
            .await
            .unwrap();
        if usize::try_from(drained).unwrap() >= requests {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn wal(bench: &Bench) -> f64 {
    sqlx::query_scalar("select (pg_current_wal_insert_lsn() - '0/0')::float8").fetch_one(&bench.pool).await.unwrap()
}

async fn hot(bench: &Bench) -> f64 {
    sqlx::query("select pg_stat_force_next_flush()").execute(&bench.pool).await.ok();
    sqlx::query_scalar(
        "select coalesce(n_tup_hot_upd::float8 / nullif(n_tup_upd, 0), 1) from pg_stat_user_tables where relname = 'request'",
    )
    .fetch_one(&bench.pool)
    .await
    .unwrap()
}

async fn disk(bench: &Bench) -> f64 {
    let sql = "select sum(pg_total_relation_size(oid))::float8 from pg_class
               where relkind = 'r' and relnamespace = 'tidegate'::regnamespace";
    sqlx::query_scalar(sql).fetch_one(&bench.pool).await.unwrap()
}

async fn figure(bench: Bench, requests: usize, seconds: f64, wal_before: f64) -> Figure {
    let count = f64::from(u32::try_from(requests).unwrap());
    let figure = Figure {
        per_second: count / seconds,
        wal_bytes: (wal(&bench).await - wal_before) / count,
        hot: hot(&bench).await,
        disk_bytes: disk(&bench).await / count,
    };
    bench.drop().await;
    figure
}

struct Workers(Vec<Child>);

impl Workers {
    fn start(url: &str, processes: usize, options: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let start = |_| Command::new(&program).args(["--worker", url, options]).stdin(Stdio::null()).spawn().unwrap();
        Self((0..processes).map(start).collect())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// From the first claim to the last settle, by the database's timestamps: process start-up is not counted.
async fn drain(location: &DatabaseLocation, requests: usize, processes: usize, options: &str) -> Figure {
    let bench = Bench::new(location).await;
    bench.submit(requests).await;
    let wal_before = wal(&bench).await;
    let workers = Workers::start(&bench.url, processes, options);
    done(&bench, requests).await;
    drop(workers);
    let seconds: f64 = sqlx::query_scalar(
        "select extract(epoch from max(finished_at) - min(tx_in_flight_at))::float8 from tidegate.request",
    )
    .fetch_one(&bench.pool)
    .await
    .unwrap();
    figure(bench, requests, seconds, wal_before).await
}

/// From the first submit to the last settle, workers running all the time.
async fn whole_life(location: &DatabaseLocation, requests: usize, processes: usize) -> Figure {
    let bench = Bench::new(location).await;
    let workers = Workers::start(&bench.url, processes, TUNED);
    loop {
        let alive: i64 =
            sqlx::query_scalar("select count(*) from tidegate.worker").fetch_one(&bench.pool).await.unwrap();
        if usize::try_from(alive).unwrap() == processes {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let wal_before = wal(&bench).await;
    let begun = Instant::now();
    bench.submit(requests).await;
    done(&bench, requests).await;
    let seconds = begun.elapsed().as_secs_f64();
    drop(workers);
    figure(bench, requests, seconds, wal_before).await
}

async fn submit_only(location: &DatabaseLocation, requests: usize) -> Figure {
    let bench = Bench::new(location).await;
    let wal_before = wal(&bench).await;
    let begun = Instant::now();
    bench.submit(requests).await;
    let seconds = begun.elapsed().as_secs_f64();
    figure(bench, requests, seconds, wal_before).await
}
