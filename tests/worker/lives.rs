//! What the engine does with stages: whole lives, lost connections, what is counted.

mod failures;
mod leases;

use std::time::Duration;

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
use tokio::task::JoinHandle;
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
