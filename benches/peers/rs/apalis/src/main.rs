//! apalis + apalis-postgres. default: PostgresStorage polling, batch_size 10, one task at a time.
//! tuned: with_pubsub, batch_size 100, lock_tasks off, concurrency 24, parallelize(tokio::spawn).
use apalis::prelude::*;
use apalis_postgres::{Config, *};
use peercommon as pc;
use std::sync::Arc;
use std::time::{Duration, Instant};

const QUEUE: &str = "bench";
async fn handle(_i: usize) -> Result<(), BoxDynError> {
    pc::hit();
    Ok(())
}
async fn pool(n: u32) -> sqlx::PgPool {
    sqlx::postgres::PgPoolOptions::new()
        .max_connections(n)
        .connect(&pc::url())
        .await
        .unwrap()
}
async fn run(pool: sqlx::PgPool) {
    let name = format!("w-{}", std::process::id());
    if pc::tuned() {
        let cfg = Config::default()
            .queue(QUEUE)
            .batch_size(100)
            .lock_tasks(false);
        let b = PostgresStorage::<usize>::new(&pool)
            .with_config(cfg)
            .with_pubsub()
            .poll_with_interval(Duration::from_millis(100));
        WorkerBuilder::new(name)
            .backend(b)
            .concurrency(24)
            .parallelize(tokio::spawn)
            .build(handle)
            .run()
            .await
            .unwrap();
    } else {
        let b = PostgresStorage::<usize>::new(&pool).with_config(Config::default().queue(QUEUE));
        WorkerBuilder::new(name)
            .backend(b)
            .build(handle)
            .run()
            .await
            .unwrap();
    }
}
async fn push(c: &mut sqlx::PgConnection, n: u64) {
    let v = (0..n)
        .map(|i| TaskBuilder::new(serde_json::to_vec(&(i as usize)).unwrap()).build())
        .collect::<Vec<_>>();
    apalis_postgres::queries::push_tasks(c, QUEUE, v)
        .await
        .unwrap();
}
#[tokio::main]
async fn main() {
    match pc::command().as_str() {
        "setup" => PostgresStorage::setup(&pool(2).await).await.unwrap(),
        "insert1" => {
            let p = pool(pc::option("c", 8) as u32).await;
            pc::insert1(move || {
                let p = p.clone();
                async move {
                    let mut c = p.acquire().await.unwrap();
                    push(&mut c, 1).await;
                }
            })
            .await;
        }
        "bulk" => {
            let p = pool(2).await;
            let (n, b) = (pc::option("n", 100000), pc::option("b", 1000));
            let mut c = p.acquire().await.unwrap();
            let t0 = Instant::now();
            for _ in 0..n / b {
                push(&mut c, b).await;
            }
            pc::report(n / b * b, t0);
        }
        "work" => {
            let p = pool(10).await;
            pc::ready_go();
            tokio::join!(run(p), pc::serve());
        }
        "latency" => {
            let rx = pc::arm();
            let p = pool(10).await;
            let c = Arc::new(tokio::sync::Mutex::new(
                pool(2).await.acquire().await.unwrap().detach(),
            ));
            let lat = pc::latency(rx, move || {
                let c = c.clone();
                async move {
                    push(&mut *c.lock().await, 1).await;
                }
            });
            tokio::join!(run(p), lat);
        }
        x => panic!("unknown command {x}"),
    }
}
