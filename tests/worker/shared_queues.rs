//! Does a worker take the kinds that it has stages for, and leave the rest of a queue to others?

mod in_front;

use serde_json::json;
use sqlx::Executor;
use tidegate::{
    internals::{
        error::StoreError,
        store::Store,
        worker::{self, WorkerError, WorkerOptions},
    },
    request::{Request, RequestId},
    stage::{JsonText, Receipt, Sent, Stages, Transact},
};
use tidegate_node::internals::Overview;
use tokio_util::sync::CancellationToken;

use crate::{
    cli::commands::{out, run},
    support::{
        TestDatabase, eventually,
        race::{Session, submit_many},
    },
    worker::lives::{Running, all_stages, options, until},
};

/// Answers at once.
struct Answers;

impl Transact for Answers {
    type Payload = JsonText;

    async fn send(&self, _: &Request) -> Sent {
        Sent::Receipt(Receipt { reference: None, response: Some(json!({}).into()) })
    }
}

/// One more kind on the queue of the others.
async fn add_strange(database: &TestDatabase) {
    database
        .execute(
            "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms)
             values ('strange', 'direct', 'tx', 1, 1)",
        )
        .await;
}

fn of_tx() -> WorkerOptions {
    WorkerOptions { queues: vec!["tx".to_owned()], ..options() }
}

async fn start(database: &TestDatabase, stages: Stages) -> Result<(), WorkerError> {
    let stop = CancellationToken::new();
    stop.cancel();
    worker::run(database.store.clone(), stages, of_tx(), stop).await
}

async fn completed(database: &TestDatabase, kind: &str) -> i64 {
    database
        .number(&format!("select count(*) from tidegate.request where kind = '{kind}' and req_status = 'completed'"))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_added_later_is_left_to_workers_that_know_it_and_stops_no_other() {
    let database = TestDatabase::unlimited().await;
    let fleet: Vec<_> = (0..3).map(|_| Running::start(&database.store, all_stages(), options())).collect();
    until(&database, database.submit("direct").await, "completed").await;

    add_strange(&database).await;
    let strange = database.submit("strange").await;
    for _ in 0..20 {
        until(&database, database.submit("direct").await, "completed").await;
    }
    assert_eq!(database.status(strange).await, "processing");
    assert_eq!(database.number("select tx_attempt from tidegate.request where kind = 'strange'").await, 0);
    shown(&database, strange, true).await;

    let stages = Stages::new().transact("strange", Answers);
    let knowing = Running::start(&database.store, stages, of_tx());
    until(&database, strange, "completed").await;
    shown(&database, database.submit("strange").await, false).await;
    for worker in fleet {
        worker.stop().await;
    }
    knowing.stop().await;
}

/// Whether every overview reports that no worker takes a kind.
async fn shown(database: &TestDatabase, id: RequestId, unserved: bool) {
    // Workers say every few seconds which kinds they take, and counts are folded from time to time.
    eventually("workers have said so", || async {
        let kinds = "select count(*) from tidegate.worker where kinds @> '{strange}'";
        (database.number(kinds).await == 0) == unserved
    })
    .await;
    let status = out(&run(&database.url, &["status"]).await);
    let doctor = out(&run(&database.url, &["doctor"]).await);
    let metrics = Overview::new(&database.store).render().await.to_string();
    for (text, words) in [
        (status, "no live worker takes requests of strange"),
        (doctor, "kind_unserved"),
        (metrics, "tidegate_queue_unserved{queue=\"tx\",kind=\"strange\"} 1"),
    ] {
        assert_eq!(text.contains(words), unserved, "{words} in\n{text}");
    }
    let reasons = database.column(&format!("select reason from tidegate.explain('{id}')")).await;
    if unserved {
        assert!(reasons.contains(&"no_worker".to_owned()), "{reasons:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_with_different_kinds_drain_one_queue_whatever_stands_in_front() {
    let database = TestDatabase::unlimited().await;
    add_strange(&database).await;
    for _ in 0..5 {
        submit_many(&database, "strange", 200).await;
        submit_many(&database, "direct", 20).await;
    }
    // A snoozed message comes due for its own worker, too.
    database
        .execute(
            "select tidegate.submit('strange', '1', not_before => clock_timestamp() + interval '10 ms'),
               tidegate.submit('direct', '1', not_before => clock_timestamp() + interval '10 ms')",
        )
        .await;

    let direct = Running::start(&database.store, Stages::new().transact("direct", Answers), of_tx());
    eventually("all direct ones complete", || async { completed(&database, "direct").await == 101 }).await;
    assert_eq!(completed(&database, "strange").await, 0);
    let strange = Running::start(&database.store, Stages::new().transact("strange", Answers), of_tx());
    eventually("all strange ones complete", || async { completed(&database, "strange").await == 1001 }).await;
    direct.stop().await;
    strange.stop().await;
    let violations = database.violations().await;
    assert_eq!(violations, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_names_the_kinds_that_use_it_and_those_that_did_until_they_are_deleted() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let kinds = |queue: &str| format!("select unnest(kinds) from tidegate.queue where name = '{queue}' order by 1");
    let own = ["direct", "input_proof", "public_decrypt", "user_decrypt"];
    assert_eq!(session.texts(&kinds("tx")).await, own);
    assert_eq!(session.texts(&kinds("readiness")).await, [own[2], own[3]]);
    // What maintenance.md tells operators to do for `kind_missing_from_its_queue`.
    database.execute("update tidegate.queue set kinds = '{}'; update tidegate.kind set tx_queue = tx_queue").await;
    assert_eq!(session.texts(&kinds("tx")).await, own);
    assert_eq!(session.texts(&kinds("readiness")).await, [own[2], own[3]]);

    add_strange(&database).await;
    let left = database.submit("strange").await.to_string();
    database
        .execute(
            "insert into tidegate.queue (name, stage) values ('other', 'tx');
             update tidegate.kind set tx_queue = 'other' where name = 'strange'",
        )
        .await;
    assert_eq!(session.texts(&kinds("other")).await, ["strange"]);
    let claim = |kinds: &str| format!("select id from tidegate.claim_tx('tx', 'w', 1, '30 s', '{{{kinds}}}')");
    // All kinds that use the queue now, but not the one whose request is in it.
    assert!(session.texts(&claim(&own.join(","))).await.is_empty());
    assert_eq!(session.texts(&claim("strange")).await, [left]);

    database
        .execute(
            "update tidegate.request set req_status = 'failure';
             delete from tidegate.request;
             delete from tidegate.kind where name = 'strange'",
        )
        .await;
    assert_eq!(session.texts(&kinds("tx")).await, own);
    assert!(session.texts(&kinds("other")).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_any_stage_for_a_queue_does_not_start() {
    let database = TestDatabase::new().await;
    let refused = start(&database, Stages::new()).await.unwrap_err();
    assert!(matches!(&refused, WorkerError::NoStage { queue, .. } if queue == "tx"), "{refused:?}");
}

/// Its receipts commit with nothing, which is enough to promise.
struct Writes;

impl Transact for Writes {
    type Payload = JsonText;

    async fn send(&self, request: &Request) -> Sent {
        Answers.send(request).await
    }
}

impl tidegate::stage::Effect for Writes {
    async fn write(&self, _: &mut sqlx::PgConnection, _: &Request, _: &Receipt) -> Result<(), sqlx::Error> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_once_needs_a_stage_that_writes_its_effect_with_the_receipt() {
    let database = TestDatabase::new().await;
    let set = run(&database.url, &["config", "set", "direct.tx.semantics", "exactly_once"]).await;
    assert!(set.status.success());
    let warned = crate::cli::commands::err(&set);
    assert!(warned.contains("transact_with_effect"), "{warned}");

    let refused = start(&database, all_stages()).await.unwrap_err();
    assert!(matches!(&refused, WorkerError::NoEffect(kind) if kind == "direct"), "{refused:?}");
    // One that leaves the kind to others starts, and so does one that keeps the promise.
    let others = Stages::new().transact("input_proof", Answers);
    start(&database, others).await.unwrap();
    let keeps = all_stages().transact_with_effect("direct", Writes);
    start(&database, keeps).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_user_may_not_claim_ends_with_the_error() {
    let database = TestDatabase::new().await;
    drop(crate::access::roles::login(&database, "reader").await);
    let pool = sqlx::postgres::PgPoolOptions::new()
        .after_connect(|session, _| {
            Box::pin(async move {
                session.execute("set session authorization tidegate_test_reader").await?;
                Ok(())
            })
        })
        .connect(&crate::support::server::superuser_url(&database.name))
        .await
        .unwrap();

    let stop = CancellationToken::new();
    let refused = worker::run(Store::new(pool), all_stages(), of_tx(), stop).await;

    assert!(matches!(&refused, Err(WorkerError::Store(StoreError::NotPermitted(_)))), "{refused:?}");
}
