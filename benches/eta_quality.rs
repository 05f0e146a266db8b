//! The quality of Retry-After: a fixed 4 s, nominal and observed ETAs compared, under steady load, bursts, and a downstream that
//! stops.
//!
//! Callers over HTTP obey `Retry-After`. All nine cases run at once, each with a kind and a queue of its own, in
//! real time: about eleven minutes for 3,000 requests a case (`REQUESTS` changes that).
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a benchmark stops at the first thing that is wrong"
)]

#[path = "eta_quality/callers.rs"]
mod callers;
#[path = "eta_quality/downstream.rs"]
mod downstream;
#[path = "eta_quality/load.rs"]
mod load;
mod support;

use std::{sync::Arc, time::Duration};

use tidegate::{
    internals::{
        store::Store,
        worker::{self, WorkerOptions},
    },
    stage::Stages,
};
use tidegate_node::{HttpOptions, Node, NodeOptions, internals::serve};
use tokio::{net::TcpListener, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use self::{
    callers::{Callers, Outcome},
    downstream::Downstream,
    load::Load,
    support::Bench,
};

/// How a caller chooses the time of its next poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Fixed,
    Nominal,
    Observed,
}

const MODES: [Mode; 3] = [Mode::Fixed, Mode::Nominal, Mode::Observed];

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Nominal => "nominal",
            Self::Observed => "observed",
        }
    }
}

fn main() {
    support::run(measure());
}

async fn measure() {
    let requests = support::number("REQUESTS", 3000);
    let location = support::location().await;
    let bench = Bench::new(&location).await;
    let store = bench.store.clone();
    let began_at = Instant::now() + Duration::from_secs(2);
    let stop = CancellationToken::new();

    let mut stages = Stages::new();
    let mut queues = Vec::new();
    let mut cases = Vec::new();
    for load in load::LOADS {
        let schedule = Arc::new(load.schedule(requests));
        for mode in MODES {
            let kind = format!("{}_{}", load.name(), mode.name());
            create_kind(&store, &kind, mode).await;
            let downstream = Downstream::new(store.clone(), Arc::clone(&schedule), began_at);
            stages = stages.transact(&kind, downstream.clone());
            queues.push(kind.clone());
            cases.push((load, mode, kind, downstream, Arc::clone(&schedule)));
        }
    }
    let options = WorkerOptions { queues, batch: 20, concurrency: 20, ..WorkerOptions::default() };
    let worker = tokio::spawn(worker::run(store.clone(), stages, options, stop.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Node::of_store(store.clone(), NodeOptions::default().http(HttpOptions::default())).router();
    let served = tokio::spawn(serve(listener, router, stop.clone()));

    let callers = Callers::new(address, began_at);
    let mut running = JoinSet::new();
    for (load, mode, kind, downstream, schedule) in cases {
        let callers = callers.clone();
        running.spawn(async move {
            let outcomes = callers.run(&kind, mode, &schedule, &downstream).await;
            (load, mode, outcomes)
        });
    }
    let mut all = running.join_all().await;
    all.sort_by_key(|(load, mode, _)| (*load as u8, *mode as u8));

    println!("{requests} requests a case, 10 sends/s, service time log-normal (median 3.6 s, sigma 0.35), jitter 10 %");
    println!(
        "{:<9} {:<9} {:>15} {:>15} {:>14} {:>10}",
        "load", "ETA", "polls/request", "mean lateness", "p90 lateness", "p90 held"
    );
    for (load, mode, outcomes) in &all {
        report(*load, *mode, outcomes);
    }
    stop.cancel();
    worker.await.unwrap().unwrap();
    served.await.unwrap().unwrap();
    bench.drop().await;
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn report(load: Load, mode: Mode, outcomes: &[Outcome]) {
    let count = outcomes.len() as f64;
    let polls: u32 = outcomes.iter().map(|outcome| outcome.polls).sum();
    let mut late: Vec<_> = outcomes.iter().map(|outcome| outcome.late.as_secs_f64()).collect();
    late.sort_by(f64::total_cmp);
    let held: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.p90_held).collect();
    let share = held.iter().filter(|held| **held).count() as f64 / held.len() as f64;
    println!(
        "{:<9} {:<9} {:>15.2} {:>13.2} s {:>12.2} s {:>10}",
        load.name(),
        mode.name(),
        f64::from(polls) / count,
        late.iter().sum::<f64>() / count,
        late[late.len() * 9 / 10],
        if held.is_empty() { "-".to_owned() } else { format!("{:.1} %", share * 100.0) }
    );
}

/// A kind with a queue of its own, at 10 per second; nominally an answer takes 4 s, as a decrypt's does.
async fn create_kind(store: &Store, kind: &str, mode: Mode) {
    let eta = if mode == Mode::Observed { "observed" } else { "nominal" };
    for sql in [
        format!("insert into tidegate.queue (name, stage, per_seconds) values ('{kind}', 'tx', 10)"),
        format!("update tidegate.gate set high_water = 5000, low_water = 2500 where queue = '{kind}'"),
        format!(
            "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms, eta)
             values ('{kind}', 'direct', '{kind}', 4000, 100, '{eta}')"
        ),
        // Requests must outlast the stop of the downstream.
        format!("update tidegate.policy set attempts = 5, timeout_ms = 120000 where kind = '{kind}'"),
    ] {
        sqlx::query(&sql).execute(store.pool()).await.unwrap();
    }
}
