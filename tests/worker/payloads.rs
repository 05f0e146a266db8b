//! Does a stage get its payload as the type that it declares, with the other facts of its request?

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::PgConnection;
use tidegate::{
    internals::{store::Submitted, worker::WorkerOptions},
    request::{Request, RequestId},
    stage::{Check, Effect, JsonText, Readiness, Receipt, Sent, Stages, Transact},
};
use tokio_util::sync::CancellationToken;

use crate::{
    support::{TestDatabase, eventually, submission},
    worker::lives::{Running, options, until},
};

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Payout {
    to: String,
    cents: u64,
}

/// Keeps the payloads of its sends, and writes them as effects.
#[derive(Clone, Default)]
struct Bank {
    sent: Arc<Mutex<Vec<Payout>>>,
}

impl Transact for Bank {
    type Payload = Payout;

    async fn send(&self, request: &Request<Payout>) -> Sent {
        self.sent.lock().unwrap().push(request.payload.clone());
        Sent::response(json!({ "paid": request.payload.cents }))
    }
}

impl Effect for Bank {
    async fn write(
        &self,
        transaction: &mut PgConnection,
        request: &Request<Payout>,
        receipt: &Receipt,
    ) -> Result<(), sqlx::Error> {
        sqlx::query("insert into public.paid values ($1, $2, $3)")
            .bind(&request.payload.to)
            .bind(i64::try_from(request.payload.cents).unwrap())
            .bind(&receipt.response)
            .execute(transaction)
            .await?;
        Ok(())
    }
}

/// Checks that cents are there.
struct Funded;

impl Readiness for Funded {
    type Payload = Payout;

    async fn check(&self, request: &Request<Payout>) -> Check {
        if request.payload.cents > 0 {
            Check::Ready
        } else {
            Check::Failed(tidegate::request::RequestError::new("empty", "no cents", false))
        }
    }
}

/// The options of a worker that only sends.
fn sending() -> WorkerOptions {
    WorkerOptions { queues: vec!["tx".to_owned()], ..options() }
}

async fn submit(database: &TestDatabase, kind: &str, payload: &Value) -> RequestId {
    match database.store.submit(&submission(kind, payload)).await.unwrap() {
        Submitted::Accepted(ticket) => ticket.id,
        other => panic!("{other:?}"),
    }
}

async fn error(database: &TestDatabase, id: RequestId) -> Value {
    let error = database.text(&format!("select error from tidegate.request where id = '{id}'")).await;
    serde_json::from_str(&error.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_and_its_effect_get_the_payload_as_the_type_that_the_stage_declares() {
    let database = TestDatabase::unlimited().await;
    database.execute("create table public.paid (recipient text, cents bigint, receipt jsonb)").await;
    let bank = Bank::default();
    let stages = Stages::new()
        .readiness("public_decrypt", Funded)
        .transact("public_decrypt", bank.clone())
        .transact_with_effect("direct", bank.clone());
    let running = Running::start(&database.store, stages, options());

    let ann = json!({ "to": "ann", "cents": 7, "note": "what a stage does not name is left out" });
    let direct = submit(&database, "direct", &ann).await;
    let checked = submit(&database, "public_decrypt", &json!({ "to": "bob", "cents": 8 })).await;
    let empty = submit(&database, "public_decrypt", &json!({ "to": "eve", "cents": 0 })).await;

    until(&database, direct, "completed").await;
    until(&database, checked, "completed").await;
    until(&database, empty, "failure").await;
    assert_eq!(error(&database, empty).await["code"], "empty");
    let payout = |to: &str, cents| Payout { to: to.to_owned(), cents };
    let mut sent = bank.sent.lock().unwrap().clone();
    sent.sort_by_key(|payout| payout.cents);
    assert_eq!(sent, [payout("ann", 7), payout("bob", 8)]);
    assert_eq!(database.column("select p::text from public.paid as p").await, [r#"(ann,7,"{""paid"": 7}")"#]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_does_not_fit_ends_its_request_with_the_place_and_none_of_the_content() {
    let database = TestDatabase::unlimited().await;
    let bank = Bank::default();
    let stages = Stages::new()
        .readiness("public_decrypt", Funded)
        .transact("public_decrypt", bank.clone())
        .transact("direct", bank.clone())
        .check("user_decrypt", |_: Request<Payout>| async { Check::Ready })
        .send("input_proof", |request: Request<Payout>| async move { Sent::response(request.payload.cents) });
    let running = Running::start(&database.store, stages, options());

    for (kind, payload, place) in [
        ("direct", json!({ "to": "secret", "cents": "classified" }), "line 1, column "),
        ("direct", json!({ "to": "secret" }), "line 1, column 16"),
        ("direct", json!(["secret"]), "line 1, column "),
        ("direct", json!({ "to": "secret", "cents": -5 }), "line 1, column "),
        ("public_decrypt", json!("secret"), "line 1, column 8"),
        ("user_decrypt", json!("secret"), "line 1, column 8"),
        ("input_proof", json!("secret"), "line 1, column 8"),
    ] {
        let id = submit(&database, kind, &payload).await;
        until(&database, id, "failure").await;
        let error = error(&database, id).await;
        let message = error["message"].as_str().unwrap();
        assert_eq!((&error["code"], &error["retryable"]), (&json!("invalid_payload"), &json!(false)));
        assert!(message.contains(place) && message.contains(kind), "{kind} {payload}: {message}");
        for content in ["secret", "classified", "-5"] {
            assert!(!message.contains(content), "{message}");
        }
        let attempts = format!("select tx_attempt + readiness_attempt from tidegate.request where id = '{id}'");
        assert_eq!(database.number(&attempts).await, 1, "{kind} is not tried again");
    }
    assert_eq!(*bank.sent.lock().unwrap(), []);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_may_take_text_and_has_the_attempt_deadline_submitter_and_lease_of_its_request() {
    let database = TestDatabase::unlimited().await;
    let seen = Arc::new(Mutex::new(None));
    let stages = Stages::new().send("direct", {
        let seen = Arc::clone(&seen);
        move |request: Request<JsonText>| {
            *seen.lock().unwrap() = Some(request);
            async { Sent::receipt("ref-1") }
        }
    });
    let running = Running::start(&database.store, stages, sending());
    let mut submission = submission("direct", &json!({ "n": 1.50 }));
    submission.submitter = Some("ann".to_owned());
    let Submitted::Accepted(ticket) = database.store.submit(&submission).await.unwrap() else { panic!() };

    until(&database, ticket.id, "receipt_received").await;

    let request = seen.lock().unwrap().take().unwrap();
    assert_eq!(request.id, ticket.id);
    assert_eq!(request.payload.get(), r#"{"n": 1.5}"#, "as the database writes it");
    assert_eq!((request.kind.as_str(), request.attempt), ("direct", 1));
    assert_eq!(request.submitter.as_deref(), Some("ann"));
    assert!(request.attempts_max > 1 && request.deadline_at > chrono::Utc::now());
    let claims = format!(
        "select count(*) from tidegate.claim where token = {} and '{}' = any(ids)",
        request.lease_token, request.id
    );
    // A claim whose requests are all settled may be gone.
    assert!(database.number(&claims).await <= 1);
    assert_ne!(request.lease_token, 0);
    running.stop().await;
}

/// Spawns a task that runs until its request is cancelled, and then answers or never does.
struct Spawns {
    cancelled: CancellationToken,
    answers: bool,
}

impl Transact for Spawns {
    type Payload = JsonText;

    async fn send(&self, request: &Request) -> Sent {
        let (cancellation, cancelled) = (request.cancellation.clone(), self.cancelled.clone());
        assert!(!cancellation.is_cancelled());
        tokio::spawn(async move {
            cancellation.cancelled().await;
            cancelled.cancel();
        });
        if self.answers { Sent::response(true) } else { std::future::pending().await }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_a_stage_has_spawned_are_cancelled_with_its_call() {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.policy set timeout_ms = 60000, attempts = 1 where kind in ('direct', 'input_proof')")
        .await;
    let (answered, dropped) = (CancellationToken::new(), CancellationToken::new());
    let stages = Stages::new()
        .transact("direct", Spawns { cancelled: answered.clone(), answers: true })
        .transact("input_proof", Spawns { cancelled: dropped.clone(), answers: false });
    let options = WorkerOptions { grace: Duration::ZERO, ..sending() };
    let running = Running::start(&database.store, stages, options);

    database.submit("direct").await;
    answered.cancelled().await;

    let stuck = database.submit("input_proof").await;
    eventually("its call runs", || async { database.status(stuck).await == "tx_in_flight" }).await;
    assert!(!dropped.is_cancelled());
    database.execute(&format!("select tidegate.fail_tx(array['{stuck}'::uuid], '{{}}')")).await;
    dropped.cancelled().await;
    running.stop().await;
}
