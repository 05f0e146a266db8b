//! riverqueue (River for Rust). default: 100 workers on the queue, every timing default (fetch cooldown 100 ms, poll 1 s).
//! tuned: its own `riverqueue bench` settings: 2000 workers, fetch cooldown 2 ms, poll 20 ms; plus the client-wide
//! cooldown 2 ms, which also paces insert notifications (only matters for latency). A key: an argument, unique by arguments.
use peercommon as pc;
use riverqueue::{
    BoxError, Client, InsertOpts, Job, JobArgs, QueueConfig, UniqueOpts, WorkContext, WorkOutcome,
    Workers, migrate::PostgresMigrator, sqlx,
};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

#[derive(Clone, Debug, Deserialize, JobArgs, Serialize)]
#[river(kind = "noop")]
struct Noop {
    i: i32,
}
#[derive(Clone, Debug, Deserialize, JobArgs, Serialize)]
#[river(kind = "once")]
struct Once {
    key: String,
}
async fn noop(_c: WorkContext, _j: Job<Noop>) -> Result<WorkOutcome, BoxError> {
    pc::hit();
    Ok(WorkOutcome::Complete)
}
async fn pool(n: u32) -> sqlx::PgPool {
    sqlx::postgres::PgPoolOptions::new()
        .max_connections(n)
        .connect(&pc::url())
        .await
        .unwrap()
}
async fn wpool() -> sqlx::PgPool {
    pool(if pc::tuned() { 40 } else { 25 }).await
}
fn worker(p: sqlx::PgPool) -> Client {
    let mut w = Workers::new();
    w.add_fn(noop).unwrap();
    let b = Client::builder(p).workers(w);
    if pc::tuned() {
        let ms = Duration::from_millis;
        let q = QueueConfig::new(2000)
            .with_fetch_cooldown(ms(2))
            .with_fetch_poll_interval(ms(20));
        b.fetch_cooldown(ms(2)).queue("default", q).build().unwrap()
    } else {
        b.queue("default", QueueConfig::new(100)).build().unwrap()
    }
}
fn inserter(p: sqlx::PgPool) -> Client {
    let b = Client::builder(p);
    if pc::tuned() {
        b.fetch_cooldown(Duration::from_millis(2))
    } else {
        b
    }
    .build()
    .unwrap()
}
#[tokio::main]
async fn main() {
    match pc::command().as_str() {
        "setup" => {
            PostgresMigrator::new(pool(2).await)
                .migrate_up()
                .await
                .unwrap();
        }
        "insert1" => {
            let c = inserter(pool(pc::option("c", 8) as u32).await);
            pc::insert1(move || {
                let c = c.clone();
                async move {
                    if pc::keyed() {
                        let unique = UniqueOpts::new().with_by_args(true);
                        let once = Once { key: pc::key() };
                        c.insert(once)
                            .opts(InsertOpts::default().with_unique(unique))
                            .await
                            .unwrap();
                    } else {
                        c.insert(Noop { i: 1 }).await.unwrap();
                    }
                }
            })
            .await;
        }
        "bulk" => {
            let c = inserter(pool(2).await);
            let (n, b) = (pc::option("n", 100000), pc::option("b", 1000));
            let t0 = Instant::now();
            for _ in 0..n / b {
                c.insert_many((0..b).map(|i| (Noop { i: i as i32 }, InsertOpts::default())))
                    .await
                    .unwrap();
            }
            pc::report(n / b * b, t0);
        }
        "work" => {
            let c = worker(wpool().await);
            pc::ready_go();
            let _run = c.start().unwrap();
            pc::serve().await;
        }
        "latency" => {
            let rx = pc::arm();
            let w = worker(wpool().await);
            let _run = w.start().unwrap();
            let c = inserter(pool(2).await);
            pc::latency(rx, move || {
                let c = c.clone();
                async move {
                    c.insert(Noop { i: 1 }).await.unwrap();
                }
            })
            .await;
        }
        x => panic!("unknown command {x}"),
    }
}
