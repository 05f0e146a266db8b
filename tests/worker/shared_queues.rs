//! Does a worker take the kinds that it has stages for, and leave the rest of a queue to others?

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
        race::{Session, settle, submit_many},
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
async fn a_claim_for_some_kinds_hides_nothing_from_other_claims() {
    let database = TestDatabase::unlimited().await;
    add_strange(&database).await;
    submit_many(&database, "strange", 3).await;
    // Far enough that a claim would raise the mark, and each taken after the due time has moved on.
    database.execute("select setval('pgmq.q_tx_msg_id_seq', 100000)").await;
    submit_many(&database, "direct", 50).await;
    let mut session = Session::open(&database).await;
    let claim = |kinds: &str, batch: i32| {
        format!("select r.kind from tidegate.claim_tx('tx', 'w', {batch}, '30 s', {kinds}) as r")
    };

    for _ in 0..10 {
        let taken = session.texts(&claim("'{direct}'", 5)).await;
        assert_eq!(taken, ["direct"; 5]);
    }
    assert!(session.texts(&claim("'{direct}'", 5)).await.is_empty());
    assert!(session.texts(&claim("'{}'", 5)).await.is_empty());
    let wait = session.text("select tidegate.claim_wait_ms('tx', '{direct}')").await;
    assert_eq!(wait, "200", "others wait, so that no submission wakes it");
    let wait = session.text("select tidegate.claim_wait_ms('tx', '{strange,direct}')").await;
    assert_eq!(wait, "0");
    assert_eq!(session.texts(&claim("'{strange}'", 2)).await, ["strange"; 2]);
    assert_eq!(session.texts(&claim("null", 5)).await, ["strange"]);
}

/// `direct` requests behind thousands of another kind, of which two claims have learned.
async fn behind_thousands(database: &TestDatabase) -> Session {
    add_strange(database).await;
    let mut session = Session::open(database).await;
    for _ in 0..2 {
        submit_many(database, "strange", 5000).await;
    }
    for _ in 0..2 {
        submit_many(database, "direct", 5).await;
        assert_eq!(session.texts(&claim_direct(5)).await.len(), 5);
    }
    session
}

fn claim_direct(batch: i32) -> String {
    format!("select r.id from tidegate.claim_tx('tx', 'w', {batch}, '1 minute', '{{direct}}') as r")
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_another_kind_in_front_cost_a_claim_nothing() {
    let mut read = Vec::new();
    for behind in [false, true] {
        let database = TestDatabase::unlimited().await;
        let mut session = if behind {
            behind_thousands(&database).await
        } else {
            add_strange(&database).await;
            Session::open(&database).await
        };
        submit_many(&database, "direct", 50).await;
        database.execute("analyze pgmq.q_tx; analyze tidegate.request").await;
        for statement in [
            claim_direct(20),
            claim_direct(50),
            "select tidegate.claim_wait_ms('tx', '{direct}')".to_owned(),
            claim_direct(1),
        ] {
            let reads = session.reads("q_tx|request", &statement).await;
            assert_eq!(reads.scans, 0, "{statement}");
            read.push(reads.rows_by_index);
        }
    }
    let (without, with) = read.split_at(4);
    for (without, with) in without.iter().zip(with) {
        assert!(with - without <= 30, "{read:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_put_off_in_front_cost_a_claim_of_nothing_nothing() {
    let database = TestDatabase::unlimited().await;
    add_strange(&database).await;
    database
        .execute(
            "select count(*) from tidegate.submit_group(
               'direct', array_fill('{}'::jsonb, array[5000]), not_before => clock_timestamp() + interval '1 day'
             )",
        )
        .await;
    for kinds in ["null", "'{direct}'"] {
        let mut session = Session::open(&database).await;
        let claim = format!("select r.id from tidegate.claim_tx('tx', 'w', 5, '1 minute', {kinds}) as r");
        assert!(session.texts(&claim).await.is_empty());
        let reads = session.reads("q_tx|request", &claim).await;
        assert!(reads.rows_by_index < 20, "{kinds}: {reads:?}");
        database.execute("select setval('tidegate.watermark_tx', 1)").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_rolls_back_leaves_nothing_below_a_mark() {
    for kinds in ["null", "'{direct}'"] {
        let database = TestDatabase::unlimited().await;
        let mut session = behind_thousands(&database).await;
        submit_many(&database, "direct", 5).await;
        let claim = format!("select r.kind from tidegate.claim_tx('tx', 'w', 20000, '1 minute', {kinds}) as r");
        session.execute("begin").await;
        let taken = session.texts(&claim).await;
        session.rollback().await;
        assert_eq!(session.texts(&claim).await, taken, "{kinds}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_waits_again_below_its_kinds_mark_is_claimed_next() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.policy set base_ms = 0, jitter_ms = 0").await;
    let mut late = Session::begin(&database).await;
    let mut expected = late.texts("select id from tidegate.submit('direct', '{}')").await;
    let mut holder = Session::open(&database).await;
    for _ in 0..3 {
        expected.push(database.submit("direct").await.to_string());
    }
    let held = holder.claim("tx", 3).await;
    let mut session = behind_thousands(&database).await;
    let mark = "select mark from tidegate.kind_watermark where kind = 'direct'";
    assert!(database.number(mark).await < held[0].msg_id, "a draw is open");

    late.commit().await;
    submit_many(&database, "direct", 1).await;
    assert_eq!(session.texts(&claim_direct(1)).await, expected[..1]);
    assert_eq!(session.texts(&claim_direct(1)).await.len(), 1);
    assert!(session.texts(&claim_direct(1)).await.is_empty());
    assert!(database.number(mark).await > 10_000);
    // Given back, retried at once, and lost and put back.
    for (sql, id) in [
        (settle("settle_released", &held[..1], ""), &expected[1]),
        (settle("settle_retry", &held[1..2], "null, array[interval '0']"), &expected[2]),
        (format!("with lost as (delete from tidegate.claim where '{}' = any(ids)) select 1", held[2].id), &expected[3]),
    ] {
        session.texts(&sql).await;
        session.texts("select reset from tidegate.recover(force => true)").await;
        assert_eq!(&session.texts(&claim_direct(10)).await, std::slice::from_ref(id));
    }
    assert_eq!(database.violations().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_in_an_old_snapshot_and_a_hand_edit_hide_nothing_below_a_kinds_mark() {
    let database = TestDatabase::unlimited().await;
    add_strange(&database).await;
    for _ in 0..2 {
        submit_many(&database, "strange", 3000).await;
        submit_many(&database, "direct", 1).await;
    }
    let mut holder = Session::open(&database).await;
    let claim = "select q.msg_id || ' ' || r.lease::text from tidegate.claim_tx('tx', 'w', 1, '1 minute', '{direct}') as r join tidegate.request as q using (id)";
    let first = holder.text(claim).await;
    let (number, lease) = first.split_once(' ').unwrap();
    holder.execute("begin isolation level repeatable read; select 1").await;
    let mut session = Session::open(&database).await;
    assert_eq!(session.texts(claim).await.len(), 1);
    let mark = "select mark from tidegate.kind_watermark where kind = 'direct'";
    assert!(database.number(mark).await > number.parse::<i64>().unwrap());
    holder
        .texts(&format!("select r.id from tidegate_internal.settle_released(array['{lease}']::tidegate.lease[]) as r"))
        .await;
    holder.commit().await;
    assert!(session.text(claim).await.starts_with(number));

    assert!(session.texts(claim).await.is_empty());
    database
        .execute(&format!(
            "delete from tidegate.claim;
             update tidegate.request set req_status = 'processing', lease = null where msg_id = {number};
             insert into pgmq.q_tx (msg_id, vt, message) overriding system value
             select msg_id, '-infinity', jsonb_build_object('id', id) from tidegate.request where msg_id = {number};
             select tidegate.recover()"
        ))
        .await;
    assert!(session.text(claim).await.starts_with(number));
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
