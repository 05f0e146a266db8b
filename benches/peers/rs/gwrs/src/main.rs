//! graphile_worker (Rust). default: concurrency 24, nothing else. tuned: its own perf_test settings
//! (concurrency 500, poll 5 ms, complete batch 5 ms, local queue 5000). A key: `job_key`.
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, WorkerContext,
    WorkerOptions, WorkerUtils,
};
use peercommon as pc;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Deserialize, Serialize)]
struct Noop {
    i: i32,
}
impl TaskHandler for Noop {
    const IDENTIFIER: &'static str = "noop";
    async fn run(self, _ctx: WorkerContext) -> impl IntoTaskHandlerResult {
        pc::hit();
        Ok::<(), String>(())
    }
}
async fn pool(n: u32) -> sqlx::PgPool {
    sqlx::postgres::PgPoolOptions::new()
        .max_connections(n)
        .connect(&pc::url())
        .await
        .unwrap()
}
fn utils(p: sqlx::PgPool) -> WorkerUtils {
    WorkerUtils::new(p, "graphile_worker")
}
async fn worker(p: sqlx::PgPool) -> graphile_worker::Worker {
    let mut o = WorkerOptions::default()
        .pg_pool(p)
        .schema("graphile_worker")
        .define_job::<Noop>();
    if pc::tuned() {
        o = o
            .concurrency(500)
            .poll_interval(Duration::from_millis(5))
            .complete_job_batch_delay(Duration::from_millis(5))
            .local_queue(LocalQueueConfig::default().with_size(5000));
    } else {
        o = o.concurrency(24);
    }
    o.init().await.unwrap()
}
#[tokio::main]
async fn main() {
    match pc::command().as_str() {
        "setup" => utils(pool(2).await).migrate().await.unwrap(),
        "insert1" => {
            let u = Arc::new(utils(pool(pc::option("c", 8) as u32).await));
            pc::insert1(move || {
                let u = u.clone();
                async move {
                    let spec = JobSpec {
                        job_key: pc::keyed().then(pc::key),
                        ..JobSpec::default()
                    };
                    u.add_job(Noop { i: 1 }, spec).await.unwrap();
                }
            })
            .await;
        }
        "bulk" => {
            let u = utils(pool(2).await);
            let (n, b) = (pc::option("n", 100000), pc::option("b", 1000));
            let jobs: Vec<RawJobSpec> = (0..b)
                .map(|i| RawJobSpec {
                    identifier: "noop".into(),
                    payload: serde_json::json!({"i": i}),
                    spec: JobSpec::default(),
                })
                .collect();
            let t0 = Instant::now();
            for _ in 0..n / b {
                u.add_raw_jobs(&jobs).await.unwrap();
            }
            pc::report(n / b * b, t0);
        }
        "work" => {
            let p = pool(25).await;
            let w = worker(p).await;
            pc::ready_go();
            tokio::spawn(async move { w.run().await.map_err(|e| eprintln!("{e:?}")) });
            pc::serve().await;
        }
        "latency" => {
            let rx = pc::arm();
            let w = worker(pool(25).await).await;
            tokio::spawn(async move { w.run().await.map_err(|e| eprintln!("{e:?}")) });
            let u = Arc::new(utils(pool(2).await));
            pc::latency(rx, move || {
                let u = u.clone();
                async move {
                    u.add_job(Noop { i: 1 }, JobSpec::default()).await.unwrap();
                }
            })
            .await;
        }
        x => panic!("unknown command {x}"),
    }
}
