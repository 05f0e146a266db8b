//! Does a call keep its lease while it runs, and settle nothing once the lease is lost or the worker stops?

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tidegate::{
    internals::worker::WorkerOptions,
    request::Request,
    stage::{JsonText, Sent, Transact},
};
use tidegate_node::Exporter;
use tokio::sync::Notify;

use super::{Running, all_stages, answer, options, sample, until};
use crate::support::{TestDatabase, eventually};

/// A send that reports its begin and then waits for a permit.
#[derive(Clone, Default)]
struct Gated {
    begun: Arc<AtomicU32>,
    go: Arc<Notify>,
}

impl Transact for Gated {
    type Payload = JsonText;

    async fn send(&self, request: &Request) -> Sent {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.go.notified().await;
        answer(request)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_prolonged_while_its_call_runs() {
    let database = TestDatabase::unlimited().await;
    let gated = Gated::default();
    let options = WorkerOptions { lease: Duration::from_secs(3), ..options() };
    let running = Running::start(&database.store, all_stages().transact("direct", gated.clone()), options);
    let id = database.submit("direct").await;
    eventually("the send begins", || async { gated.begun.load(Ordering::SeqCst) == 1 }).await;

    eventually("the lease is prolonged three times its length", || async {
        database.number("select count(*) from tidegate.claim where until > claimed_at + interval '9 s'").await == 1
    })
    .await;
    gated.go.notify_one();

    until(&database, id, "completed").await;
    assert_eq!(gated.begun.load(Ordering::SeqCst), 1);
    assert_eq!(database.causes(id).await, ["submitted", "claimed", "receipt"]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_lease_is_taken_away_is_dropped_and_settles_nothing() {
    let database = TestDatabase::unlimited().await;
    let gated = Gated::default();
    let running = Running::start(&database.store, all_stages().transact("direct", gated.clone()), options());
    let id = database.submit("direct").await;
    eventually("the send begins", || async { gated.begun.load(Ordering::SeqCst) == 1 }).await;

    database.execute("call tidegate.maintain()").await;
    database.execute("select * from tidegate.recover(reset_all => true, force => true)").await;

    // The same worker claims it anew, finds no receipt and sends again. The first call may still be there: whatever it
    // says settles nothing.
    eventually("the send begins anew", || async { gated.begun.load(Ordering::SeqCst) == 2 }).await;
    eventually("it completes", || async {
        gated.go.notify_waiters();
        database.status(id).await == "completed"
    })
    .await;
    assert_eq!(database.causes(id).await, ["submitted", "claimed", "recovered", "claimed", "receipt"]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_lets_running_calls_finish_and_gives_the_rest_back() {
    let database = TestDatabase::new().await;
    // One send per second: the others wait for their reserved time, or in the queue.
    database.execute("update tidegate.queue set per_seconds = 20 where name = 'tx'").await;
    let gated = Gated::default();
    for _ in 0..6 {
        database.submit("direct").await;
    }
    let running = Running::start(&database.store, all_stages().transact("direct", gated.clone()), options());
    eventually("a send begins", || async { gated.begun.load(Ordering::SeqCst) >= 1 }).await;

    running.stop.cancel();
    let begun = Arc::clone(&gated.begun);
    eventually("the running calls finish", || {
        gated.go.notify_waiters();
        let finished = running.task.is_finished();
        async move { finished }
    })
    .await;
    running.task.await.unwrap().unwrap();

    let begun = i64::from(begun.load(Ordering::SeqCst));
    assert_eq!(database.number("select count(*) from tidegate.request where req_status = 'completed'").await, begun);
    assert_eq!(
        database
            .number("select count(*) from tidegate.request where req_status = 'processing' and tx_attempt = 0")
            .await,
        6 - begun
    );
    assert_eq!(database.number("select count(*) from pgmq.q_tx where vt = '-infinity'").await, 6 - begun);
    assert_eq!(database.number("select count(*) from tidegate.worker where stopped_at is not null").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_taken_away_is_counted_as_lost() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("direct").await;
    let go = Arc::new(Notify::new());
    let gated = Gated { begun: Arc::default(), go: Arc::clone(&go) };
    let exporter = Exporter::new();
    let options = WorkerOptions { metrics: exporter.metrics(), ..options() };
    let stages = all_stages().transact("direct", gated);
    let worker = Running::start(&database.store, stages, options);
    until(&database, id, "tx_in_flight").await;

    database.execute("update tidegate.request set lease = 1; update tidegate.claim set token = 1").await;

    eventually("the loss is counted", || async {
        sample(&exporter, "tidegate_worker_leases_lost_total{queue=\"tx\"}") >= 1.0
    })
    .await;
    // It has come back to the same worker by then, or will soon.
    go.notify_one();
    worker.stop().await;
}
