//! What the engine does with stages: whole lives, failures, lost leases, stops.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tidegate::{
    internals::{
        metrics::Metrics,
        store::Store,
        worker::{self, WorkerError, WorkerOptions},
    },
    request::{Request, RequestError, RequestId},
    stage::{Check, Found, JsonText, Readiness, Receipt, Sent, Stages, Transact},
};
use tidegate_node::Exporter;
use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::support::{TestDatabase, eventually};

/// Stages made of closures.
struct Checks<F>(F);

impl<F> Readiness for Checks<F>
where
    F: Fn(&Request) -> Check + Send + Sync + 'static,
{
    type Payload = JsonText;

    async fn check(&self, request: &Request) -> Check {
        (self.0)(request)
    }
}

struct Sends<F>(F);

impl<F> Transact for Sends<F>
where
    F: Fn(&Request) -> Sent + Send + Sync + 'static,
{
    type Payload = JsonText;

    async fn send(&self, request: &Request) -> Sent {
        (self.0)(request)
    }
}

fn answer(_: &Request) -> Sent {
    Sent::Receipt(Receipt { reference: None, response: Some(json!({ "ok": true }).into()) })
}

fn refer(request: &Request) -> Sent {
    Sent::Receipt(Receipt { reference: Some(format!("ref-{}", request.id)), response: None })
}

/// Stages for the four kinds of the example: always ready, sent at once.
pub(crate) fn all_stages() -> Stages {
    Stages::new()
        .readiness("public_decrypt", Checks(|_: &Request| Check::Ready))
        .readiness("user_decrypt", Checks(|_: &Request| Check::Ready))
        .transact("public_decrypt", Sends(refer))
        .transact("user_decrypt", Sends(refer))
        .transact("input_proof", Sends(refer))
        .transact("direct", Sends(answer))
}

/// A worker in this process.
pub(crate) struct Running {
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), WorkerError>>,
}

impl Running {
    pub(crate) fn start(store: &Store, stages: Stages, options: WorkerOptions) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(worker::run(store.clone(), stages, options, stop.clone()));
        Self { stop, task }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

pub(crate) fn options() -> WorkerOptions {
    WorkerOptions { lease: Duration::from_secs(60), grace: Duration::from_secs(5), ..WorkerOptions::default() }
}

/// A worker that takes everything to its receipt, counts in `metrics`, and stops.
pub(crate) async fn run_to_the_end(database: &TestDatabase, metrics: Metrics) {
    let options = WorkerOptions { metrics, ..options() };
    let worker = Running::start(&database.store, all_stages(), options);
    eventually("nothing is left to do", || async {
        database.number("select sum(depth)::bigint from tidegate.queue_counts()").await == 0
    })
    .await;
    worker.stop().await;
}

pub(crate) async fn until(database: &TestDatabase, id: RequestId, status: &str) {
    eventually(status, || async { database.status(id).await == status }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_every_kind_go_their_way() {
    let database = TestDatabase::unlimited().await;
    let running = Running::start(&database.store, all_stages(), options());

    let direct = database.submit("direct").await;
    let proof = database.submit("input_proof").await;
    let public = database.submit("public_decrypt").await;

    until(&database, direct, "completed").await;
    until(&database, proof, "receipt_received").await;
    until(&database, public, "receipt_received").await;
    assert_eq!(database.causes(direct).await, ["submitted", "claimed", "receipt"]);
    assert_eq!(database.causes(public).await, ["submitted", "readiness_passed", "claimed", "receipt"]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panicking_stage_harms_only_its_own_request_and_not_for_ever() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    database.execute("update tidegate.policy set base_ms = 1, cap_ms = 1, jitter_ms = 0").await;
    let stages = all_stages()
        .readiness("user_decrypt", Checks(|_: &Request| -> Check { panic!("poison") }))
        .transact("input_proof", Sends(|_: &Request| -> Sent { panic!("poison") }));
    let running = Running::start(&database.store, stages, options());

    let poisoned_check = database.submit("user_decrypt").await;
    let poisoned_send = database.submit("input_proof").await;
    let healthy = database.submit("direct").await;

    until(&database, healthy, "completed").await;
    until(&database, poisoned_check, "failure").await;
    until(&database, poisoned_send, "failure").await;
    for id in [poisoned_check, poisoned_send] {
        let error = database.store.outlook(id).await.unwrap().unwrap().error.unwrap();
        assert!(error.message.contains("poison"), "{error:?}");
    }
    let causes = database.causes(poisoned_send).await;
    assert_eq!(causes.iter().filter(|cause| *cause == "claimed").count(), 5);
    assert_eq!(causes.last().unwrap(), "attempts_exhausted");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_stored_ends_its_request_and_no_other() {
    let database = TestDatabase::unlimited().await;
    let stages = all_stages().transact(
        "direct",
        Sends(|request: &Request| {
            let poison = request.payload.get().contains("poison");
            Sent::Receipt(Receipt {
                reference: None,
                response: Some(json!({ "text": if poison { "\0" } else { "fine" } }).into()),
            })
        }),
    );
    let mut ids = Vec::new();
    for payload in [json!({}), json!("poison"), json!({})] {
        let submitted = database.store.submit(&crate::support::submission("direct", &payload)).await;
        let tidegate::internals::store::Submitted::Accepted(ticket) = submitted.unwrap() else {
            panic!("not accepted");
        };
        ids.push(ticket.id);
    }

    let running = Running::start(&database.store, stages, options());

    until(&database, ids[0], "completed").await;
    until(&database, ids[1], "failure").await;
    until(&database, ids[2], "completed").await;
    running.stop().await;
}

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
async fn a_lost_sender_s_receipt_is_found_before_anything_is_sent_again() {
    struct Finds;
    impl Transact for Finds {
        type Payload = JsonText;

        async fn send(&self, _: &Request) -> Sent {
            panic!("sent again")
        }

        async fn find_receipt(&self, request: &Request) -> Result<Found, RequestError> {
            assert!(request.attempt > 1);
            Ok(Found::Receipt(Receipt { reference: None, response: Some(json!("found").into()) }))
        }
    }
    let database = TestDatabase::unlimited().await;
    let id = database.submit("direct").await;
    database.execute("select * from tidegate.claim_tx('tx', 'lost', 1, '100 ms')").await;

    let running = Running::start(&database.store, all_stages().transact("direct", Finds), options());

    until(&database, id, "completed").await;
    assert_eq!(database.causes(id).await, ["submitted", "claimed", "recovered", "claimed", "receipt"]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_survive_the_loss_of_every_connection() {
    let database = TestDatabase::unlimited().await;
    let running = Running::start(&database.store, all_stages(), options());
    until(&database, database.submit("direct").await, "completed").await;

    let mut admin = database.session().await;
    sqlx::raw_sql(
        "select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'",
    )
    .execute(&mut admin)
    .await
    .unwrap();

    let id: uuid::Uuid =
        sqlx::query_scalar("select id from tidegate.submit('direct', '{}')").fetch_one(&mut admin).await.unwrap();
    eventually("work goes on", || async {
        let status = database.store.outlook(RequestId(id)).await;
        status.is_ok_and(|outlook| outlook.is_some_and(|outlook| outlook.status.is_terminal()))
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_submissions_made_at_once_none_waits_for_the_poll() {
    let database = TestDatabase::unlimited().await;
    // A poll so rare that a request that waits for it would fail this test.
    let running =
        Running::start(&database.store, all_stages(), WorkerOptions { poll: Duration::from_secs(3600), ..options() });
    for _ in 0..30 {
        let (one, other) = tokio::join!(database.submit("direct"), database.submit("direct"));
        until(&database, one, "completed").await;
        until(&database, other, "completed").await;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_panics_before_it_returns_its_future_is_contained_too() {
    struct Rash;
    impl Transact for Rash {
        type Payload = JsonText;

        fn send(&self, _: &Request) -> impl Future<Output = Sent> + Send {
            panic!("rash");
            #[expect(unreachable_code, reason = "gives the function its type")]
            async {
                Sent::Rejected(RequestError::new("never", "never", false))
            }
        }
    }
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.policy set base_ms = 1, cap_ms = 1, jitter_ms = 0").await;
    let running = Running::start(&database.store, all_stages().transact("direct", Rash), options());

    let id = database.submit("direct").await;

    until(&database, id, "failure").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_cannot_be_stored_as_it_is_takes_no_other_outcome_with_it() {
    let database = TestDatabase::unlimited().await;
    let stages = all_stages().transact(
        "direct",
        Sends(|request: &Request| {
            let poison = request.payload.get().contains("poison");
            let (code, message) = if poison { ("\0", "a\0b") } else { ("refused", "no") };
            Sent::Rejected(RequestError::new(code, message, false))
        }),
    );
    let mut ids = Vec::new();
    for payload in [json!({}), json!("poison"), json!({})] {
        let submission = crate::support::submission("direct", &payload);
        let tidegate::internals::store::Submitted::Accepted(ticket) = database.store.submit(&submission).await.unwrap()
        else {
            panic!("not accepted");
        };
        ids.push(ticket.id);
    }

    let running = Running::start(&database.store, stages, options());

    for id in ids {
        until(&database, id, "failure").await;
        assert_eq!(database.causes(id).await, ["submitted", "claimed", "rejected"]);
    }
    running.stop().await;
}

/// The value of a sample.
pub(crate) fn sample(exporter: &Exporter, name: &str) -> f64 {
    let text = exporter.render();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_claims_calls_and_outcomes_of_a_worker_are_counted() {
    let database = TestDatabase::unlimited().await;
    for kind in ["direct", "direct", "public_decrypt"] {
        database.submit(kind).await;
    }
    let exporter = Exporter::new();

    run_to_the_end(&database, exporter.metrics()).await;

    for (name, count) in [
        ("claimed_total{queue=\"readiness\"}", 1.0),
        ("claimed_total{queue=\"tx\"}", 3.0),
        ("settled_total{queue=\"readiness\",outcome=\"passed\"}", 1.0),
        ("settled_total{queue=\"tx\",outcome=\"receipt\"}", 3.0),
        ("settled_total{queue=\"tx\",outcome=\"retry\"}", 0.0),
        ("call_duration_seconds_count{queue=\"tx\"}", 3.0),
        ("leases_lost_total{queue=\"tx\"}", 0.0),
    ] {
        assert_eq!(sample(&exporter, &format!("tidegate_worker_{name}")), count, "{name}");
    }
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
