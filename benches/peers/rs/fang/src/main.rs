//! fang (asynk-postgres). default: 24 workers, default SleepParams (5 s, +5 s, max 15 s). tuned: 24 workers, sleep 100 ms.
//! No bulk API: bulk inserts one by one on 8 tasks. A key: `uniq`, which hashes the task's metadata and looks for it first.
use fang::asynk::async_queue::{AsyncQueue, AsyncQueueable};
use fang::asynk::async_worker_pool::AsyncWorkerPool;
use fang::{
    AsyncRunnable, FangError, SleepParams, async_trait,
    serde::{Deserialize, Serialize},
    typetag,
};
use peercommon as pc;
use std::time::Duration;

#[derive(Serialize, Deserialize)]
#[serde(crate = "fang::serde")]
struct Noop {
    i: u32,
}
#[typetag::serde]
#[async_trait]
impl AsyncRunnable for Noop {
    async fn run(&self, _q: &dyn AsyncQueueable) -> Result<(), FangError> {
        pc::hit();
        Ok(())
    }
}
#[derive(Serialize, Deserialize)]
#[serde(crate = "fang::serde")]
struct Once {
    key: String,
}
#[typetag::serde]
#[async_trait]
impl AsyncRunnable for Once {
    async fn run(&self, _q: &dyn AsyncQueueable) -> Result<(), FangError> {
        pc::hit();
        Ok(())
    }
    fn uniq(&self) -> bool {
        true
    }
}
async fn queue(n: u32) -> AsyncQueue {
    let mut q = AsyncQueue::builder()
        .uri(pc::url())
        .max_pool_size(n)
        .build();
    q.connect().await.unwrap();
    q
}
async fn start(q: AsyncQueue) {
    let d = Duration::from_millis(100);
    let mut s = SleepParams::default();
    if pc::tuned() {
        s = SleepParams {
            sleep_period: d,
            max_sleep_period: d,
            min_sleep_period: d,
            sleep_step: Duration::ZERO,
        };
    }
    let mut p: AsyncWorkerPool<AsyncQueue> = AsyncWorkerPool::builder()
        .number_of_workers(24u32)
        .queue(q)
        .sleep_params(s)
        .build();
    p.start().await;
}
#[tokio::main]
async fn main() {
    match pc::command().as_str() {
        "insert1" | "bulk" => {
            let q = queue(8).await;
            pc::insert1(move || {
                let q = q.clone();
                async move {
                    if pc::keyed() {
                        q.insert_task(&Once { key: pc::key() }).await.unwrap();
                    } else {
                        q.insert_task(&Noop { i: 1 }).await.unwrap();
                    }
                }
            })
            .await;
        }
        "work" => {
            let q = queue(24).await;
            pc::ready_go();
            start(q).await;
            pc::serve().await;
        }
        "latency" => {
            let rx = pc::arm();
            start(queue(24).await).await;
            let q = queue(2).await;
            pc::latency(rx, move || {
                let q = q.clone();
                async move {
                    q.insert_task(&Noop { i: 1 }).await.unwrap();
                }
            })
            .await;
        }
        x => panic!("unknown command {x}"),
    }
}
