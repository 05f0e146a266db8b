//! Does an effect that is written with its receipt's settle happen exactly once, although processes are killed meanwhile?

use std::{process::Stdio, time::Duration};

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tidegate::{
    internals::{
        database::{self, PoolSettings},
        store::{Outcome, Settle, Store, Submitted},
        worker::{self, WorkerOptions},
    },
    request::{Request, RequestError, RequestId, Stage},
    stage::{Effect, JsonText, Receipt, Sent, Stages, Transact},
};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use crate::support::{TestDatabase, campaign, eventually, submission, until_blocked};

/// Where the worker processes of these tests find their database.
const CHILD: &str = "TIDEGATE_TEST_EFFECTS_URL";

/// The lock that a held effect waits for.
const LOCK: &str = "pg_advisory_xact_lock(77)";

/// A ledger in the same database: what the payload says about its fate is what happens.
struct Ledger;

impl Transact for Ledger {
    type Payload = JsonText;

    async fn send(&self, request: &Request) -> Sent {
        if fate(request) == "rejected" {
            return Sent::Rejected(RequestError::new("refused", "no", false));
        }
        Sent::Receipt(Receipt { reference: None, response: Some(json!({}).into()) })
    }
}

impl Effect for Ledger {
    async fn write(&self, transaction: &mut PgConnection, request: &Request, _: &Receipt) -> Result<(), sqlx::Error> {
        sqlx::query("insert into public.ledger (request_id) values ($1)")
            .bind(request.id.0)
            .execute(&mut *transaction)
            .await?;
        let more = match fate(request).as_str() {
            "failing" | "swallowed" => "select 1 / 0",
            "held" => &format!("select {LOCK}"),
            "ending" => "rollback",
            "panicking" => panic!("a rash effect"),
            _ => return Ok(()),
        };
        let done = sqlx::query(more).execute(transaction).await;
        if fate(request) != "swallowed" {
            done?;
        }
        Ok(())
    }
}

fn fate(request: &Request) -> String {
    let payload: Value = serde_json::from_str(request.payload.get()).unwrap();
    payload.as_str().unwrap_or_default().to_owned()
}

fn stages() -> Stages {
    crate::worker::lives::all_stages().transact_with_effect("direct", Ledger)
}

fn options() -> WorkerOptions {
    WorkerOptions {
        queues: vec!["tx".to_owned()],
        lease: Duration::from_secs(60),
        batch: 4,
        concurrency: 4,
        ..WorkerOptions::default()
    }
}

/// A database with a ledger, in which nothing keeps an effect from being written twice.
async fn with_ledger() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "create table public.ledger (
               place bigint generated always as identity, request_id uuid not null,
               transaction xid8 not null default pg_current_xact_id()
             );
             update tidegate.policy set base_ms = 1, cap_ms = 1, jitter_ms = 0",
        )
        .await;
    database
}

async fn submit(database: &TestDatabase, fate: &str) -> RequestId {
    let submission = submission("direct", &json!(fate));
    match database.store.submit(&submission).await.unwrap() {
        Submitted::Accepted(ticket) => ticket.id,
        other => panic!("{other:?}"),
    }
}

async fn ended(database: &TestDatabase) -> i64 {
    database.number("select count(*) from tidegate.request where req_status in ('completed', 'failure')").await
}

/// Every completed request has one effect, and no other has any.
async fn assert_exactly_once(database: &TestDatabase) {
    let wrong = database
        .column(
            "select format('%s is %s and has %s effects', r.id, r.req_status, count(l.request_id))
             from tidegate.request as r left join public.ledger as l on l.request_id = r.id
             group by r.id
             having count(l.request_id) <> (r.req_status = 'completed')::integer",
        )
        .await;
    assert_eq!(wrong, Vec::<String>::new());
}

/// This test program again, as a worker process.
fn worker_process(database: &TestDatabase) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["settle::effects::as_a_process_this_is_a_worker", "--exact"])
        .env(CHILD, &database.url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// What [`worker_process`] runs until it is killed; by itself it is no test.
#[tokio::test(flavor = "multi_thread")]
async fn as_a_process_this_is_a_worker() {
    let Ok(url) = std::env::var(CHILD) else {
        return;
    };
    let pool = database::connect(&url, &PoolSettings::default()).await;
    let store = Store::new(pool.unwrap());
    // What a killed process held is soon free.
    let options = WorkerOptions { lease: Duration::from_secs(5), ..options() };
    worker::run(store, stages(), options, CancellationToken::new()).await.unwrap();
}

/// Runs a worker in this process until `requests` have ended.
async fn run_until_ended(database: &TestDatabase, requests: i64, options: WorkerOptions) {
    let stop = CancellationToken::new();
    let store = database.store.clone();
    let running = tokio::spawn(worker::run(store, stages(), options, stop.clone()));
    eventually("every request ends", || async { ended(database).await == requests }).await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_effect_happens_once_however_many_workers_are_killed() {
    let database = with_ledger().await;
    let all = campaign(60, 400);
    for number in 0..all {
        let fate = match number % 20 {
            7 => "rejected",
            13 => "failing",
            _ => "plain",
        };
        submit(&database, fate).await;
    }
    let mut workers: Vec<_> = (0..3).map(|_| worker_process(&database)).collect();

    let mut killed = 0;
    loop {
        let enough = ended(&database).await + rand::random_range(1..30);
        eventually("some more requests end", || async { ended(&database).await >= enough.min(all) }).await;
        if ended(&database).await == all {
            break;
        }
        let doomed = &mut workers[rand::random_range(0..3)];
        doomed.kill().await.unwrap();
        killed += 1;
        *doomed = worker_process(&database);
    }

    assert!(killed > campaign(0, 10), "only {killed} workers were killed");
    let completed = "select count(*) from tidegate.request where req_status = 'completed'";
    assert!(database.number(completed).await > all * 3 / 4);
    assert_exactly_once(&database).await;
    let violations = database.violations().await;
    assert_eq!(violations, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_between_settle_and_commit_leaves_neither_and_another_makes_both() {
    let database = with_ledger().await;
    let mut holder = database.session().await;
    let mut lock = holder.begin().await.unwrap();
    sqlx::raw_sql(&format!("select {LOCK}")).execute(&mut *lock).await.unwrap();
    let id = submit(&database, "held").await;
    let mut doomed = worker_process(&database);
    until_blocked(&database, 1).await;

    doomed.kill().await.unwrap();
    // In flight; or back, where it took longer than the lease to come here.
    assert_ne!(database.status(id).await, "completed");
    lock.rollback().await.unwrap();

    run_until_ended(&database, 1, options()).await;
    assert_eq!(database.causes(id).await, ["submitted", "claimed", "recovered", "claimed", "receipt"]);
    assert_exactly_once(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_fails_takes_no_other_with_it() {
    let database = with_ledger().await;
    database.execute("update tidegate.policy set attempts = 3").await;
    let mut bad = Vec::new();
    for fate in ["failing", "plain", "swallowed", "plain", "ending", "panicking", "plain"] {
        let id = submit(&database, fate).await;
        if fate != "plain" {
            bad.push((id, fate));
        }
    }
    let options = WorkerOptions { batch: 10, concurrency: 10, ..options() };

    run_until_ended(&database, 7, options).await;

    assert_exactly_once(&database).await;
    for (id, fate) in bad {
        assert_eq!(database.status(id).await, "failure", "{fate}");
        let causes = database.causes(id).await;
        assert_eq!(causes.last().unwrap(), "attempts_exhausted", "{fate}");
        let outlook = database.store.outlook(id).await.unwrap().unwrap();
        let message = outlook.error.unwrap().message;
        assert!(message.contains("its effect failed"), "{fate}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_its_own_worker_claims_again_before_it_is_settled_has_one_effect() {
    let database = with_ledger().await;
    let mut holder = database.session().await;
    let mut lock = holder.begin().await.unwrap();
    sqlx::raw_sql(&format!("select {LOCK}")).execute(&mut *lock).await.unwrap();
    let options = WorkerOptions { poll: Duration::from_millis(10), concurrency: 16, ..options() };
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker::run(database.store.clone(), stages(), options, stop.clone()));
    // Its settle waits, and so does whatever is to be settled after it.
    submit(&database, "held").await;
    until_blocked(&database, 1).await;
    let id = submit(&database, "plain").await;
    let attempts = |count: i64| {
        let sql = format!(
            "select count(*) from tidegate.request where id = '{id}' and req_status = 'tx_in_flight' and tx_attempt = {count}"
        );
        let database = &database;
        async move { database.number(&sql).await == 1 }
    };
    for count in 1..4 {
        eventually("it is claimed", || attempts(count)).await;
        // Its hold runs out.
        database.execute(&format!("update tidegate.claim set until = clock_timestamp() where '{id}' = any(ids)")).await;
    }
    eventually("it is claimed once more", || attempts(4)).await;
    lock.rollback().await.unwrap();

    eventually("every request ends", || async { ended(&database).await == 2 }).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_exactly_once(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn effects_of_a_batch_are_written_in_the_order_of_its_messages() {
    let database = with_ledger().await;
    let mut ids = Vec::new();
    // On a busy machine outcomes may come one by one.
    for round in 1..=5 {
        for _ in 0..200 {
            ids.push(submit(&database, "plain").await.0);
        }
        let options = WorkerOptions { batch: 50, concurrency: 50, ..options() };

        run_until_ended(&database, 200 * round, options).await;

        assert_exactly_once(&database).await;
        let written: Vec<(uuid::Uuid, String)> =
            sqlx::query_as("select request_id, transaction::text from public.ledger order by place")
                .fetch_all(&database.pool)
                .await
                .unwrap();
        let number = |id| ids.iter().position(|other| *other == id).unwrap();
        let mut together = 0;
        for pair in written.windows(2) {
            if pair[0].1 == pair[1].1 {
                together += 1;
                assert!(number(pair[0].0) < number(pair[1].0));
            }
        }
        if together > 0 {
            return;
        }
    }
    panic!("each was settled alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_settle_in_a_transaction_of_the_embedders_own() {
    let database = TestDatabase::unlimited().await;
    let (one, other) = (database.submit("direct").await, database.submit("direct").await);
    let lease = Duration::from_secs(30);
    let claimed = database.store.claim(Stage::Tx, "tx", "own", 2, lease, None);
    let claimed = claimed.await.unwrap();
    let mut settles: Vec<_> = claimed
        .iter()
        .map(|claimed| {
            let response = Some(json!({}).into());
            Settle::new(claimed.lease, Outcome::Receipt(Receipt { reference: None, response }))
        })
        .collect();
    settles[1].lease.token += 1;

    for (commit, status) in [(false, "tx_in_flight"), (true, "completed")] {
        let mut transaction = database.pool.begin().await.unwrap();
        let moved = database.store.settle_in(&mut transaction, "tx", &settles).await.unwrap();
        let moved: Vec<_> = moved.iter().map(|moved| moved.id).collect();
        assert_eq!(moved, [one]);
        if commit {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
        assert_eq!(database.status(one).await, status);
    }
    assert_eq!(database.status(other).await, "tx_in_flight");
}
