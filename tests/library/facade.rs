//! Does `Tidegate` submit, wait, respond, cancel and run workers, as a program that embeds it expects?

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::{Executor, postgres::PgPoolOptions};
use tidegate::{
    Error, Kind, Response, Stages, Submitted, Tidegate,
    internals::{
        error::StoreError,
        store::{Cancelled, Ticket},
        worker::WorkerError,
    },
    request::{JsonText, Request, RequestId, Status},
    stage::{Check, Sent},
};
use tracing::{Dispatch, instrument::WithSubscriber, level_filters::LevelFilter};
use uuid::Uuid;

use crate::support::{TestDatabase, eventually, server::superuser_url};

const LONG: Duration = Duration::from_secs(30);

fn ticket(submitted: Submitted) -> Ticket {
    match submitted {
        Submitted::Accepted(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

/// Answers at once with its payload.
fn echo(kind: &str) -> Stages {
    Stages::new().send(kind, |request: Request<Value>| async move { Sent::response(request.payload) })
}

async fn requests(database: &TestDatabase) -> i64 {
    database.number("select count(*) from tidegate.request").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_drains_the_queues_of_its_stages_and_logs_which_kinds_it_leaves() {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    tidegate.register(Kind::direct("payout").rate(1000)).await.unwrap();
    let (proof, checked) = (database.submit("input_proof").await, database.submit("public_decrypt").await);

    let log = Log::default();
    let writer = log.clone();
    let stages = || echo("direct").send("payout", |_: Request<JsonText>| async { Sent::response("paid") });
    // While one subscriber is alone, a message first met on a thread without it stays disabled; this one is the other.
    let _second = Dispatch::new(tracing_subscriber::fmt().with_max_level(LevelFilter::OFF).finish());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let worker = tidegate.worker(stages()).start().with_subscriber(subscriber).await.unwrap();

    for (kind, response) in [("direct", json!(7)), ("payout", json!("paid"))] {
        let id = ticket(tidegate.submit(kind, &7).await.unwrap()).id;
        let ended = tidegate.wait(id, LONG).await.unwrap();
        assert_eq!((ended.status, ended.response::<Value>().unwrap()), (Status::Completed, response));
    }
    assert_eq!(database.status(proof).await, "processing");
    assert_eq!(database.status(checked).await, "queued");
    let queues = database.text("select queues from tidegate.worker").await;
    assert_eq!(queues.as_deref(), Some("{payout,tx}"));
    let left = log.lines_with("leaves them to other workers");
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].contains("kinds=\"input_proof public_decrypt user_decrypt\""), "{left:?}");
    worker.stop().await.unwrap();
    assert_eq!(database.number("select count(*) from tidegate.worker where stopped_at is not null").await, 1);
}

/// The lines of a log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines_with(&self, words: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_does_not_start_without_a_queue_for_each_stage() {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    for (stages, said) in [
        (echo("payout"), "kind \"payout\" has no queue for a tx stage: register the kind"),
        (
            Stages::new().check("direct", |_: Request<JsonText>| async { Check::Ready }),
            "kind \"direct\" has no queue for a readiness stage",
        ),
        (Stages::new(), "a worker needs a queue"),
    ] {
        let error = tidegate.worker(stages).start().await.err().unwrap();
        assert!(matches!(error, Error::Worker(_)) && error.to_string().starts_with(said), "{error}");
    }
    database
        .execute("update tidegate.policy set semantics = 'exactly_once' where kind = 'direct' and stage = 'tx'")
        .await;
    let error = tidegate.worker(echo("direct")).start().await.err().unwrap();
    assert!(matches!(error, Error::Worker(WorkerError::NoEffect(_))), "at the start, not later: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_runs_until_it_is_stopped_or_its_user_may_not_claim() {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    tidegate.worker(echo("direct")).run_until(async {}).await.unwrap();

    drop(crate::access::roles::login(&database, "reader").await);
    let reader = PgPoolOptions::new().after_connect(|session, _| {
        Box::pin(async move {
            session.execute("set session authorization tidegate_test_reader").await?;
            Ok(())
        })
    });
    let tidegate = Tidegate::from_pool(reader.connect(&superuser_url(&database.name)).await.unwrap());
    let ended = tidegate.worker(echo("direct")).run_until(std::future::pending::<()>()).await;
    assert!(matches!(&ended, Err(Error::Worker(WorkerError::Store(StoreError::NotPermitted(_))))), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_has_its_key_submitter_delay_and_admission() {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    database.stop_clock().await;

    let first = ticket(tidegate.submit("direct", &json!({ "n": 1 })).key("a").submitter("ann").await.unwrap());
    let Submitted::Replayed(again) =
        tidegate.submit("direct", &json!({ "n": 1 })).key("a").submitter("ann").await.unwrap()
    else {
        panic!("a key is replayed")
    };
    assert_eq!(again.id, first.id);
    assert_eq!(tidegate.get(first.id).await.unwrap().unwrap().submitter.as_deref(), Some("ann"));
    let error = tidegate.submit("direct", &json!({ "n": 2 })).key("a").submitter("ann").await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::KeyReused(_))), "{error}");

    // By the clock of the database, not of this process.
    let later = ticket(tidegate.submit("direct", &1).delay(Duration::from_millis(90_500)).await.unwrap());
    let until = database
        .text("select m.vt - c.at from pgmq.q_tx as m, public.test_clock as c order by m.msg_id desc limit 1")
        .await;
    assert_eq!(until.as_deref(), Some("00:01:30.5"), "{later:?}");

    database.execute("select tidegate.gate_force('tx', 'too_many_requests')").await;
    let before = requests(&database).await;
    let Submitted::Refused { retry_after } = tidegate.submit("direct", &1).await.unwrap() else {
        panic!("the gate is closed")
    };
    assert!(retry_after.as_secs() >= 1);
    assert_eq!(requests(&database).await, before);
    ticket(tidegate.submit("direct", &1).accepted().await.unwrap());
    assert_eq!(requests(&database).await, before + 1);

    let error = tidegate.submit("direct", &BTreeMap::from([([1], 1)])).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Unstorable(_))), "{error}");
    let error = tidegate.submit("unknown", &1).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::UnknownKind(_))), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_in_a_transaction_is_there_if_and_only_if_it_commits() {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    database.execute("create table public.shop_order (id uuid)").await;

    for (commits, rows) in [(false, 0), (true, 1)] {
        let mut transaction = database.pool.begin().await.unwrap();
        let submission = tidegate.submit("direct", &1).key("a").within(&mut transaction);
        let id = ticket(submission.await.unwrap()).id;
        sqlx::query("insert into public.shop_order values ($1)").bind(id.0).execute(&mut *transaction).await.unwrap();
        assert!(tidegate.get(id).await.unwrap().is_none(), "other sessions do not see it yet");
        if commits {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
        assert_eq!(requests(&database).await, rows);
        let both = "select count(*) from public.shop_order join tidegate.request using (id)";
        assert_eq!(database.number(both).await, rows, "the key of a rollback is free again");
    }
    let worker = tidegate.worker(echo("direct")).start().await.unwrap();
    let id = database.text("select id from tidegate.request").await.unwrap().parse().unwrap();
    assert_eq!(tidegate.wait(id, LONG).await.unwrap().response::<u8>().unwrap(), 1);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_with_the_request_its_time_or_an_unknown_id_and_a_response_has_a_type() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Paid {
        cents: u64,
    }
    let database = TestDatabase::unlimited().await;
    // One connection: no wait keeps it from the others.
    let options = PgPoolOptions::new().max_connections(1).acquire_timeout(LONG);
    let tidegate = Tidegate::from_pool(options.connect(&database.url).await.unwrap());

    let id = ticket(tidegate.submit("direct", &1).await.unwrap()).id;
    let error = tidegate.wait(id, Duration::from_millis(5)).await.unwrap_err();
    assert!(matches!(error, Error::NotEnded { id: of, .. } if of == id), "{error}");
    let error = tidegate.wait(RequestId(Uuid::nil()), LONG).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::UnknownRequest(_))), "{error}");
    let open = tidegate.get(id).await.unwrap().unwrap().response::<Paid>().unwrap_err();
    assert_eq!(open.to_string(), format!("request {id} is processing and has no response"));

    let stages = Stages::new().send("direct", |request: Request<u64>| async move {
        match request.payload {
            0 => Sent::rejected("empty", "no cents"),
            cents => Sent::response(json!({ "cents": cents })),
        }
    });
    let worker = tidegate.worker(stages).start().await.unwrap();
    let waits: Vec<_> = [1, 2, 3].into_iter().map(|_| tidegate.wait(id, LONG)).collect();
    for ended in futures_util::future::join_all(waits).await {
        assert_eq!(ended.unwrap().response::<Paid>().unwrap(), Paid { cents: 1 });
    }
    let error = tidegate.wait(id, LONG).await.unwrap().response::<String>().unwrap_err();
    assert!(matches!(error, Error::ResponseType { .. }), "{error}");

    let rejected = ticket(tidegate.submit("direct", &0).await.unwrap()).id;
    let ended = tidegate.wait(rejected, LONG).await.unwrap();
    let error = ended.response::<Paid>().unwrap_err();
    assert_eq!(error.to_string(), format!("request {rejected} is failure and has no response: no cents (empty)"));
    worker.stop().await.unwrap();
}

/// This runtime has one thread, and it waits for the outage: the worker's task has not begun before.
#[tokio::test]
async fn a_worker_whose_database_goes_away_right_after_its_start_waits_for_it() {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    let id = ticket(tidegate.submit("direct", &1).await.unwrap()).id;
    let worker = tidegate.worker(echo("direct")).start().await.unwrap();
    let cut = || tokio::runtime::Runtime::new().unwrap().block_on(database.cut());
    std::thread::scope(|threads| threads.spawn(cut).join()).unwrap();

    let errors = || tidegate.store().error_counts().map(|(_, count)| count).sum::<u64>();
    eventually("it has met the outage", async || errors() > 0).await;
    database.restore().await;
    // On connections of its own: those that were cut are still pooled.
    let caller = Tidegate::connect(&database.url).await.unwrap();
    assert_eq!(caller.wait(id, LONG).await.unwrap().status, Status::Completed);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_come_by_id_and_by_reference_as_shares_and_verdicts_and_cancels_end_requests() {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::connect(&database.url).await.unwrap();
    tidegate.register(Kind::decrypt("shared").threshold(2)).await.unwrap();
    let stages = Stages::new()
        .check("shared", |_: Request<JsonText>| async { Check::Ready })
        .send("shared", |_: Request<JsonText>| async { Sent::receipt("tx-1") })
        .send("input_proof", |request: Request<JsonText>| async move { Sent::receipt(request.id.to_string()) })
        .send("direct", |_: Request<JsonText>| async { Sent::receipt("tx-2") });
    let worker = tidegate.worker(stages).start().await.unwrap();

    let shared = ticket(tidegate.submit("shared", &1).await.unwrap()).id;
    let (waited, ()) = tokio::join!(tidegate.wait(shared, LONG), async {
        let share = |part: &str| Response::new("tx-1", &part).unwrap().part(part);
        let responded = tidegate.respond_many(&[share("a"), share("b")]).await.unwrap();
        assert!(responded.iter().all(Result::is_ok), "{responded:?}");
    });
    let shares = json!({ "shares": { "a": "a", "b": "b" } });
    assert_eq!(waited.unwrap().response::<Value>().unwrap(), shares);

    let proof = ticket(tidegate.submit("input_proof", &1).await.unwrap()).id;
    let reference = proof.to_string();
    tidegate.respond(&*reference, &json!({})).verdict(false).await.unwrap();
    assert_eq!(tidegate.wait(proof, LONG).await.unwrap().status, Status::Failure);

    let direct = ticket(tidegate.submit("direct", &1).await.unwrap()).id;
    crate::worker::lives::until(&database, direct, "receipt_received").await;
    let responded = tidegate.respond(direct, &"12 pages").await.unwrap();
    assert_eq!((responded.id, responded.outcome.as_str()), (Some(direct), "completed"));
    assert_eq!(tidegate.wait(direct, LONG).await.unwrap().response::<String>().unwrap(), "12 pages");
    assert_eq!(tidegate.cancel(direct).await.unwrap(), Cancelled::NotCancellable(Status::Completed));
    worker.stop().await.unwrap();

    let waiting = ticket(tidegate.submit("direct", &1).await.unwrap()).id;
    assert_eq!(tidegate.cancel(waiting).await.unwrap(), Cancelled::Cancelled);
    assert_eq!(tidegate.wait(waiting, LONG).await.unwrap().status, Status::Failure);
}
