//! When a slow call is hedged, and the cost of hedges.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tidegate::{
    internals::worker::WorkerOptions,
    request::{Request, RequestId},
    stage::{Check, JsonText, Readiness, Receipt, Sent, Transact},
};
use tidegate_node::Exporter;
use tokio::sync::Semaphore;

use crate::{
    support::{
        TestDatabase, eventually,
        race::{Session, settle, submit_many},
    },
    worker::lives::{Running, all_stages, sample, until},
};

/// A downstream that answers the first call of each request only when it is let go, and every further one at once.
#[derive(Clone)]
struct SlowAtFirst {
    calls: Arc<Mutex<HashMap<RequestId, u32>>>,
    begun: Arc<Mutex<Vec<Instant>>>,
    dropped: Arc<AtomicU32>,
    go: Arc<Semaphore>,
}

impl SlowAtFirst {
    fn new() -> Self {
        Self { calls: Arc::default(), begun: Arc::default(), dropped: Arc::default(), go: Arc::new(Semaphore::new(0)) }
    }

    async fn call(&self, request: &Request) {
        struct Running(Arc<AtomicU32>, bool);
        impl Drop for Running {
            fn drop(&mut self) {
                if !self.1 {
                    self.0.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
        let is_first = {
            let mut begun = self.begun.lock().unwrap();
            begun.push(Instant::now());
            let mut calls = self.calls.lock().unwrap();
            let calls = calls.entry(request.id).or_default();
            *calls += 1;
            *calls == 1
        };
        let mut running = Running(self.dropped.clone(), false);
        if is_first {
            let _ = self.go.acquire().await.unwrap();
        }
        running.1 = true;
    }

    fn calls(&self) -> u32 {
        u32::try_from(self.begun.lock().unwrap().len()).unwrap()
    }

    fn calls_of(&self, id: RequestId) -> u32 {
        self.calls.lock().unwrap().get(&id).copied().unwrap_or_default()
    }
}

impl Readiness for SlowAtFirst {
    type Payload = JsonText;

    async fn check(&self, request: &Request) -> Check {
        self.call(request).await;
        Check::Ready
    }
}

impl Transact for SlowAtFirst {
    type Payload = JsonText;

    async fn send(&self, request: &Request) -> Sent {
        self.call(request).await;
        Sent::Receipt(Receipt { reference: Some(format!("ref-{}", request.id)), response: Some(json!({}).into()) })
    }
}

fn counted_in(exporter: &Exporter) -> WorkerOptions {
    WorkerOptions { metrics: exporter.metrics(), batch: 500, concurrency: 500, ..WorkerOptions::default() }
}

/// Hedges that settles have reported.
async fn reported(database: &TestDatabase) -> i64 {
    database
        .number(
            "select coalesce(sum(c.hedges), 0)
             from (select hedges from tidegate.call_total union all select hedges from tidegate.call_sample) as c",
        )
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_answer_settles_and_the_slow_call_is_dropped() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy
             set hedge_safe = true, hedge_after_ms = 20, hedge_max = 1, hedge_share = 1",
        )
        .await;
    let (checks, sends) = (SlowAtFirst::new(), SlowAtFirst::new());
    let stages = all_stages().readiness("public_decrypt", checks.clone()).transact("direct", sends.clone());
    let exporter = Exporter::new();
    let running = Running::start(&database.store, stages, counted_in(&exporter));

    let (decrypt, direct) = (database.submit("public_decrypt").await, database.submit("direct").await);

    until(&database, direct, "completed").await;
    until(&database, decrypt, "receipt_received").await;
    for (calls, id, queue) in [(&checks, decrypt, "readiness"), (&sends, direct, "tx")] {
        assert_eq!(calls.calls_of(id), 2, "{queue}");
        assert_eq!(calls.dropped.load(Ordering::SeqCst), 1, "{queue}");
        let name = format!("tidegate_worker_hedges_total{{queue=\"{queue}\"}}");
        assert_eq!(sample(&exporter, &name), 1.0);
    }
    assert_eq!(database.causes(direct).await, ["submitted", "claimed", "receipt"]);
    running.stop().await;
    assert_eq!(reported(&database).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn hedges_stay_within_their_share_of_the_calls() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy
             set hedge_safe = true, hedge_after_ms = 1, hedge_max = 3, hedge_share = 0.05, attempts = 1, timeout_ms = 100000
             where kind = 'direct' and stage = 'tx'",
        )
        .await;
    let sends = SlowAtFirst::new();
    let stages = all_stages().transact("direct", sends.clone());
    let exporter = Exporter::new();
    let running = Running::start(&database.store, stages, counted_in(&exporter));
    for _ in 0..300 {
        database.submit("direct").await;
    }
    let hedges = || sample(&exporter, "tidegate_worker_hedges_total{queue=\"tx\"}");

    eventually("every call has begun, and some are hedged", || async { sends.calls() > 300 && hedges() > 0.0 }).await;
    sends.go.add_permits(Semaphore::MAX_PERMITS / 2);
    eventually("all complete", || async {
        database.number("select count(*) from tidegate.request where req_status = 'completed'").await == 300
    })
    .await;
    running.stop().await;

    let made = f64::from(sends.calls()) - 300.0;
    assert!((1.0..=15.0).contains(&made), "{made} hedges of 300 calls");
    assert_eq!(hedges(), made);
    assert_eq!(reported(&database).await, made as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_is_not_safe_to_hedge_is_never_called_twice() {
    let database = TestDatabase::unlimited().await;
    let refusal = database
        .refused("update tidegate.policy set hedge_max = 1, hedge_after_ms = 1 where kind = 'direct' and stage = 'tx'")
        .await;
    assert_eq!(refusal.code, "23514", "{refusal:?}");
    database
        .execute(
            "update tidegate.policy set hedge_after_ms = 1 where stage = 'tx';
             update tidegate.policy set hedge_safe = true, hedge_max = 1, hedge_share = 1
             where kind = 'input_proof' and stage = 'tx'",
        )
        .await;
    let (unsafe_sends, safe_sends) = (SlowAtFirst::new(), SlowAtFirst::new());
    let stages = all_stages().transact("direct", unsafe_sends.clone()).transact("input_proof", safe_sends.clone());
    let running = Running::start(&database.store, stages, WorkerOptions::default());

    let slow = database.submit("direct").await;
    eventually("it is sent", || async { unsafe_sends.calls() == 1 }).await;
    for _ in 0..5 {
        // Each of these has been hedged when it is through, and began later than the one that is not to be.
        let proof = database.submit("input_proof").await;
        until(&database, proof, "receipt_received").await;
        assert_eq!(safe_sends.calls_of(proof), 2);
    }
    assert_eq!(unsafe_sends.calls(), 1);

    unsafe_sends.go.add_permits(1);
    until(&database, slow, "completed").await;
    assert_eq!(unsafe_sends.calls(), 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hedged_sends_keep_the_rate_limit() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.queue set per_seconds = 10, burst = 1 where name = 'tx';
             update tidegate.policy set hedge_safe = true, hedge_after_ms = 1, hedge_max = 1, hedge_share = 1
             where kind = 'direct' and stage = 'tx'",
        )
        .await;
    let sends = SlowAtFirst::new();
    let stages = all_stages().transact("direct", sends.clone());
    for _ in 0..20 {
        database.submit("direct").await;
    }
    let running = Running::start(&database.store, stages, WorkerOptions::default());

    eventually("all complete", || async {
        database.number("select count(*) from tidegate.request where req_status = 'completed'").await == 20
    })
    .await;
    running.stop().await;

    assert_eq!(sends.calls(), 40);
    let begun = sends.begun.lock().unwrap();
    let in_a_second = |from: Instant| {
        begun.iter().filter(|at| **at >= from && at.duration_since(from) < Duration::from_secs(1)).count()
    };
    let most = begun.iter().map(|from| in_a_second(*from)).max();
    // The rate, the burst, and one that fifty milliseconds of lateness may move. A slot is longer than a starved machine
    // holds a call up.
    assert!(most <= Some(10 + 1 + 1), "{most:?} sends in a second");
}

#[tokio::test(flavor = "multi_thread")]
async fn senseless_numbers_of_hedges_do_not_keep_a_settle_from_its_work() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 2).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 2).await;
    session.execute(&settle("settle_receipt", &held, "null, null, '{-5}', array_fill(2147483647, array[2])")).await;
    assert_eq!(
        database.value("select count(*) from tidegate.request where req_status = 'receipt_received'").await,
        "2"
    );
}
