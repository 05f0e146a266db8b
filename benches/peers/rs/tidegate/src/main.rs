//! Tidegate with stages that answer at once; rows and history are kept.
//!
//! `PEER_MODE=tuned`: batches of 1,000, 2,000 at once; else `WorkerOptions::default()`.
//! `TIDEGATE_MARKS=HIGH/LOW`: the gates' marks, else out of reach. `TIDEGATE_ADMISSION=accepted`: single submissions are
//! `accepted`, else strict. `TIDEGATE_KIND`: the kind; `TIDEGATE_RESPOND=1`, `many`, `shares`: its response comes by
//! calls, not with the receipt (see `stages`). `PEER_SNOOZED=1`: bulk inserts start tomorrow.

mod keep;
mod stages;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use peercommon as pc;
use tidegate::{
    internals::{
        database::{self, PoolSettings},
        schema,
        store::{Admission, GroupRequests, GroupTerms, SameKey, Store, Submission, Submitted},
        worker::{self, WorkerOptions},
    },
    request::JsonText,
};
use tokio_util::sync::CancellationToken;

fn kind() -> String {
    pc::word("TIDEGATE_KIND", "direct")
}

fn admission() -> Admission {
    match pc::word("TIDEGATE_ADMISSION", "enforce").as_str() {
        "accepted" => Admission::Accepted,
        _ => Admission::Enforce,
    }
}

async fn store() -> Store {
    Store::new(database::connect(&pc::url(), &PoolSettings::default()).await.unwrap())
}

fn payload() -> JsonText {
    r#"{"i":1}"#.parse().unwrap()
}

/// As an operator sets up one who wants no rate and no limit of checks; the marks as told.
async fn set_up() {
    schema::migrate(&pc::url()).await.unwrap();
    let store = store().await;
    store.initialise(Some("relayer"), None).await.unwrap();
    let marks = pc::word("TIDEGATE_MARKS", "1000000000/500000000");
    let (high, low) = marks.split_once('/').expect("TIDEGATE_MARKS=HIGH/LOW");
    for sql in [
        "update tidegate.queue set per_seconds = null, burst = 1, max_concurrency = null".to_owned(),
        format!("update tidegate.gate set high_water = {high}, low_water = {low}"),
    ] {
        sqlx::query(&sql).execute(store.pool()).await.unwrap();
    }
}

async fn submit_one(store: &Store) {
    let submission = Submission {
        kind: kind(),
        payload: payload(),
        idempotency_key: pc::keyed().then(pc::key),
        same_key: SameKey::Compare,
        submitter: None,
        admission: admission(),
        not_before: None,
        traceparent: None,
        callback_url: None,
    };
    loop {
        match store.submit(&submission).await.unwrap() {
            Submitted::Accepted(_) => return,
            Submitted::Replayed(ticket) => panic!("{ticket:?} was there before"),
            // Retries at once instead of after `Retry-After`: the figure is the number of accepted submissions.
            Submitted::Refused { .. } => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

async fn submit_single() {
    let store = Arc::new(store().await);
    pc::insert1(move || {
        let store = Arc::clone(&store);
        async move { submit_one(&store).await }
    })
    .await;
}

async fn submit_bulk() {
    let store = store().await;
    let (n, size) = (pc::option("n", 100_000), pc::option("b", 1000));
    let (kind, payloads) = (kind(), vec![payload(); usize::try_from(size).unwrap()]);
    let tomorrow = pc::is_set("PEER_SNOOZED").then(|| chrono::Utc::now() + chrono::TimeDelta::days(1));
    // Requests from before the measurement are `accepted`.
    let admission = if pc::is_set("PEER_FILL") { Admission::Accepted } else { admission() };
    let terms = GroupTerms { not_before: tomorrow, ..GroupTerms::default() };
    let begun = Instant::now();
    for _ in 0..n / size {
        let submitted = if tomorrow.is_some() {
            store.submit_group(&kind, GroupRequests { payloads: &payloads, ..GroupRequests::default() }, terms).await
        } else {
            store.submit_batch(&kind, &payloads, None, None, admission, None).await
        };
        let submitted = submitted.unwrap();
        assert!(submitted.iter().all(|one| matches!(one, Submitted::Accepted(_))));
    }
    pc::report(n / size * size, begun);
}

async fn run_worker(store: Store) {
    let kind = kind();
    let queues: &[&str] = if kind.ends_with("decrypt") { &["readiness", "tx"] } else { &["tx"] };
    let mut options =
        WorkerOptions { queues: queues.iter().map(|&queue| queue.to_owned()).collect(), ..WorkerOptions::default() };
    if pc::tuned() {
        options.batch = 1000;
        options.concurrency = 2000;
    }
    let stages = stages::of_all_kinds(&store);
    worker::run(store, stages, options, CancellationToken::new()).await.unwrap();
}

async fn latency() {
    let starts = pc::arm();
    tokio::spawn(run_worker(store().await));
    let store = Arc::new(store().await);
    pc::latency(starts, move || {
        let store = Arc::clone(&store);
        async move { submit_one(&store).await }
    })
    .await;
}

#[tokio::main]
async fn main() {
    match pc::command().as_str() {
        "setup" => set_up().await,
        "insert1" => submit_single().await,
        "bulk" => submit_bulk().await,
        "work" => {
            let store = store().await;
            pc::ready_go();
            tokio::spawn(run_worker(store));
            pc::serve().await;
        }
        "keep" => keep::keep().await,
        "latency" => latency().await,
        other => panic!("unknown command {other}"),
    }
}
