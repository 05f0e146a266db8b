//! One learned timeout for three worker processes, of which one is killed, and for a fourth that comes later.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Json, Router, extract::State, routing::post};
use serde_json::{Value, json};
use tokio::process::Child;

use super::{
    count, serve, spawn, stop,
    support::{TestDatabase, eventually},
};

/// How many calls a worker has under way at once.
const CONCURRENCY: i64 = 8;

/// Takes twenty milliseconds to answer, or for ever.
#[derive(Default)]
struct Service {
    silent: AtomicBool,
}

async fn send(State(service): State<Arc<Service>>) -> Json<Value> {
    if service.silent.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    Json(json!({ "response": "done" }))
}

fn worker(database: &TestDatabase, name: &str, url: &str) -> Child {
    let options = "--queue tx --batch 8 --lease 2s";
    let arguments = format!("http {options} --name {name} --kind direct --send-url {url} --concurrency {CONCURRENCY}");
    spawn(database, &arguments.split(' ').collect::<Vec<_>>())
}

/// Keeps requests waiting, so that every process has work.
async fn feed(database: &TestDatabase) {
    if count(database, "tidegate.request where req_status = 'processing'").await < 200 {
        database
            .execute(
                "select count(*)
                 from tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[200]), admission => 'accepted')",
            )
            .await;
    }
}

/// The number of a worker's last report, and when it was made.
async fn last_report(database: &TestDatabase, worker: &str) -> (i64, String) {
    let last = format!("from tidegate.timeout_report where worker = '{worker}'");
    let at = database.text(&format!("select at {last}")).await.unwrap();
    let sequence = database.number(&format!("select sequence {last}")).await;
    (sequence, at)
}

/// How many intervals the fleet has closed.
async fn intervals(database: &TestDatabase) -> i64 {
    database.number("select coalesce(max(intervals), 0) from tidegate.estimator_overview").await
}

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_share_one_learned_timeout_that_outlives_any_of_them() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy
             set attempts = 1, timeout_mode = 'adaptive', timeout_ms = 900, adaptive_interval_ms = 1000, adaptive_slo = 0.1
             where kind = 'direct'",
        )
        .await;
    let service = Arc::new(Service::default());
    let router = Router::new().route("/send", post(send));
    let url = format!("{}/send", serve(router.with_state(Arc::clone(&service))).await);

    let mut workers = ["one", "two", "three"].map(|name| worker(&database, name, &url));
    eventually("three processes report to one estimator", || async {
        feed(&database).await;
        let reports = "tidegate.timeout_report where sequence >= 2";
        intervals(&database).await >= 3 && count(&database, reports).await == 3
    })
    .await;
    assert_eq!(count(&database, "tidegate.timeout_estimator").await, 1);

    // Only the calls that a killed process had not reported are lost: a report has every call that was settled before
    // the previous report, except those whose settle had not returned yet.
    let (sequence, reported_at) = last_report(&database, "one").await;
    eventually("it reports twice more", || async {
        feed(&database).await;
        last_report(&database, "one").await.0 >= sequence + 2
    })
    .await;
    workers[0].kill().await.unwrap();
    let unreported = database
        .number(&format!(
            "select count(*) - max(r.reported)
             from tidegate.timeout_report as r
             join tidegate.request_event as e
               on e.worker = r.worker and e.from_status = 'tx_in_flight' and e.at < '{reported_at}'
             where r.worker = 'one'"
        ))
        .await;
    assert!(unreported <= CONCURRENCY, "{unreported} answers were never reported");
    let then = intervals(&database).await;
    eventually("the others go on without it", || async {
        feed(&database).await;
        let two_processes = "tidegate.estimator_overview where processes = 2";
        intervals(&database).await >= then + 3 && count(&database, two_processes).await == 1
    })
    .await;

    // Not while the machine is so busy that calls take longer than that.
    let learned = "select floor(timeout_ms)::bigint from tidegate.estimator_overview";
    eventually("they learn less than the policy's timeout", || async {
        feed(&database).await;
        (20..900).contains(&database.number(learned).await)
    })
    .await;

    // The last reports come with the stop. The requests that the killed process held are rescued, not sent again.
    for running in workers.into_iter().skip(1) {
        stop(running).await;
    }
    let learned = database.number(learned).await;
    assert!((20..900).contains(&learned), "{learned} ms");
    let unreported = database
        .number(
            "select sum(e.answers - r.reported)
             from tidegate.timeout_report as r
             join (
               select e.worker, count(*) as answers from tidegate.request_event as e
               where e.from_status = 'tx_in_flight' and e.attempt = 1 and e.cause not in ('released', 'recovered')
               group by 1
             ) as e using (worker)
             where r.worker <> 'one'",
        )
        .await;
    assert_eq!(unreported, 0, "a worker that stops reports every call");

    service.silent.store(true, Ordering::SeqCst);
    let _late = worker(&database, "four", &url);
    let cut_off = "tidegate.request where worker = 'four' and error is not null";
    eventually("a fourth process has cut a call off", || async { count(&database, cut_off).await > 0 }).await;
    let first_message = "select r.error ->> 'message'
        from tidegate.request as r
        join tidegate.request_event as e on e.request_id = r.id
        where r.worker = 'four' and r.error is not null and e.cause = 'claimed'
        order by e.at
        limit 1";
    let message = database.text(first_message).await.unwrap();
    let expected = format!("took longer than {learned} ms");
    assert!(message.contains(&expected), "{learned} ms learned, and {message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_cut_names_the_limit_that_cut_it() {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.policy set attempts = 1, timeout_ms = 300 where kind = 'direct' and stage = 'tx'")
        .await;
    let service = Arc::new(Service::default());
    service.silent.store(true, Ordering::SeqCst);
    let router = Router::new().route("/send", post(send));
    let url = format!("{}/send", serve(router.with_state(service)).await);
    for (options, limit) in [
        ("", "sending took longer than 300 ms (direct.tx.timeout_ms)"),
        (
            "--connect-timeout 50ms --first-byte-timeout 100ms",
            "the service did not answer in time: cut by --first-byte-timeout 100ms",
        ),
    ] {
        let id = database.submit("direct").await;
        let arguments = format!("http --queue tx --kind direct --send-url {url} {options}");
        let running = spawn(&database, &arguments.split_whitespace().collect::<Vec<_>>());
        eventually("the call is cut", || async { database.status(id).await == "failure" }).await;
        let error = format!("select error ->> 'message' from tidegate.request where id = '{id}'");
        let error = database.text(&error).await.unwrap();
        // An attempt before it may not have come to a connection in time.
        let (attempt, cut) = error.split_once(": ").unwrap();
        assert!(attempt.starts_with("attempt ") && cut.starts_with(&format!("{limit};")), "{error}");
        stop(running).await;
    }
}
