//! awa. default: `QueueConfig::default()` (50 workers, claim batch 512, poll 200 ms, deadline 5 min) and `insert_many`.
//! tuned: the settings of its own benchmark tests (max_workers 1024, poll 50 ms, deadline off = compact receipt path) and
//! `QueueStorage::enqueue_params_copy`, which its docs name for high-volume producers.
use awa::model::{insert::params_with, migrations};
use awa::{
    Client, InsertOpts, InsertParams, JobArgs, JobResult, QueueConfig, QueueStorage,
    QueueStorageConfig, insert_many, insert_with,
};
use peercommon as pc;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

const QUEUE: &str = "default";
#[derive(Serialize, Deserialize, JobArgs)]
struct Noop {
    i: i32,
}
fn opts() -> InsertOpts {
    InsertOpts {
        queue: QUEUE.into(),
        ..Default::default()
    }
}
async fn pool(n: u32) -> sqlx::PgPool {
    sqlx::postgres::PgPoolOptions::new()
        .max_connections(n)
        .connect(&pc::url())
        .await
        .unwrap()
}
fn worker(p: sqlx::PgPool) -> Client {
    let q = if pc::tuned() {
        let e = |k: &str, d: u64| {
            std::env::var(k)
                .ok()
                .and_then(|v| v.parse().ok())
                .unwrap_or(d)
        };
        QueueConfig {
            max_workers: e("AWA_W", 1024) as u32,
            claimers: e("AWA_C", 1) as u16,
            claim_batch_size: e("AWA_B", 512) as usize,
            poll_interval: Duration::from_millis(50),
            deadline_duration: Duration::ZERO,
            ..QueueConfig::default()
        }
    } else {
        QueueConfig::default()
    };
    Client::builder(p)
        .queue(QUEUE, q)
        .register::<Noop, _, _>(|_args, _ctx| async move {
            pc::hit();
            Ok(JobResult::Completed)
        })
        .build()
        .unwrap()
}
#[tokio::main]
async fn main() {
    match pc::command().as_str() {
        "setup" => {
            let p = pool(2).await;
            migrations::run(&p).await.unwrap();
            // what the first worker start does on an empty install; without it producers still write to the pre-0.6 tables
            sqlx::query("SELECT awa.storage_auto_finalize_if_fresh('awa')")
                .execute(&p)
                .await
                .unwrap();
        }
        "insert1" => {
            let p = pool(pc::option("c", 8) as u32).await;
            pc::insert1(move || {
                let p = p.clone();
                async move {
                    insert_with(&p, &Noop { i: 1 }, opts()).await.unwrap();
                }
            })
            .await;
        }
        "bulk" => {
            let p = pool(2).await;
            let (n, b) = (pc::option("n", 100000), pc::option("b", 1000));
            let store = QueueStorage::new(QueueStorageConfig::default()).unwrap();
            let t0 = Instant::now();
            for _ in 0..n / b {
                let v: Vec<InsertParams> = (0..b)
                    .map(|i| params_with(&Noop { i: i as i32 }, opts()).unwrap())
                    .collect();
                if pc::tuned() || std::env::var("PEER_FILL").as_deref() == Ok("1") {
                    store.enqueue_params_copy(&p, &v).await.unwrap();
                } else {
                    insert_many(&p, &v).await.unwrap();
                }
            }
            pc::report(n / b * b, t0);
        }
        "work" => {
            let c = worker(pool(25).await);
            pc::ready_go();
            c.start().await.unwrap();
            pc::serve().await;
        }
        "latency" => {
            let rx = pc::arm();
            let c = worker(pool(25).await);
            c.start().await.unwrap();
            let p = pool(2).await;
            pc::latency(rx, move || {
                let p = p.clone();
                async move {
                    insert_with(&p, &Noop { i: 1 }, opts()).await.unwrap();
                }
            })
            .await;
        }
        x => panic!("unknown command {x}"),
    }
}
