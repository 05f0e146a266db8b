//! sqlxmq. default: runner defaults (min 16 / max 32 concurrent). tuned: 100 / 200. No bulk API: bulk spawns in one transaction of `b`.
use peercommon as pc;
use sqlxmq::{CurrentJob, JobRegistry, job};
use std::time::Instant;

#[job]
async fn noop(mut job: CurrentJob) -> sqlx::Result<()> {
    pc::hit();
    job.complete().await
}
async fn pool(n: u32) -> sqlx::PgPool {
    sqlx::postgres::PgPoolOptions::new()
        .max_connections(n)
        .connect(&pc::url())
        .await
        .unwrap()
}
async fn run(p: &sqlx::PgPool) -> sqlxmq::JobRunnerHandle {
    let reg = JobRegistry::new(&[noop]);
    let mut r = reg.runner(p);
    if pc::tuned() {
        r.set_concurrency(100, 200);
    }
    r.run().await.unwrap()
}
#[tokio::main]
async fn main() {
    match pc::command().as_str() {
        "setup" => {
            let p = pool(2).await;
            let dir = std::env::var("SQLXMQ_MIGRATIONS").expect("SQLXMQ_MIGRATIONS");
            sqlx::migrate::Migrator::new(std::path::Path::new(&dir))
                .await
                .unwrap()
                .run(&p)
                .await
                .unwrap();
        }
        "insert1" => {
            let p = pool(pc::option("c", 8) as u32).await;
            pc::insert1(move || {
                let p = p.clone();
                async move {
                    noop.builder()
                        .set_json(&1)
                        .unwrap()
                        .spawn(&p)
                        .await
                        .unwrap();
                }
            })
            .await;
        }
        "bulk" => {
            let p = pool(2).await;
            let (n, b) = (pc::option("n", 100000), pc::option("b", 1000));
            let t0 = Instant::now();
            for _ in 0..n / b {
                let mut tx = p.begin().await.unwrap();
                for i in 0..b {
                    noop.builder()
                        .set_json(&i)
                        .unwrap()
                        .spawn(&mut *tx)
                        .await
                        .unwrap();
                }
                tx.commit().await.unwrap();
            }
            pc::report(n / b * b, t0);
        }
        "work" => {
            let p = pool(24).await;
            pc::ready_go();
            let _h = run(&p).await;
            pc::serve().await;
        }
        "latency" => {
            let rx = pc::arm();
            let p = pool(24).await;
            let _h = run(&p).await;
            pc::latency(rx, move || {
                let p = p.clone();
                async move {
                    noop.builder()
                        .set_json(&1)
                        .unwrap()
                        .spawn(&p)
                        .await
                        .unwrap();
                }
            })
            .await;
        }
        x => panic!("unknown command {x}"),
    }
}
