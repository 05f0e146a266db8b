//! Does `redrive` submit what has failed again, once, linked both ways?

mod keys;
mod selection;
mod turns;

use std::process::Stdio;

use serde_json::Value;
use tidegate::request::RequestId;

use crate::{
    cli::commands::{err, out, run, tidegate},
    support::{
        TestDatabase, eventually,
        race::{NOTHING, Session, receipt, sound, submit_many},
    },
};

const REDRIVE: &str = "select redriven, refused from tidegate.redrive()";

/// As many requests of a kind that have failed, in order.
async fn failed(database: &TestDatabase, kind: &str, count: i32) -> Vec<RequestId> {
    let ids = submit_many(database, kind, count).await;
    let list: Vec<_> = ids.iter().map(|id| format!("'{id}'")).collect();
    database.execute(&format!("select tidegate.fail_internal(array[{}]::uuid[])", list.join(", "))).await;
    ids
}

async fn redrive(database: &TestDatabase, arguments: &[&str]) -> (Option<i32>, Value) {
    let arguments = [&["redrive", "--json"], arguments].concat();
    let output = run(&database.url, &arguments).await;
    let summary = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", out(&output), err(&output)));
    (output.status.code(), summary)
}

async fn redriven_as(session: &mut Session, id: RequestId) -> RequestId {
    session.text(&format!("select redriven_as from tidegate.redrive where request_id = '{id}'")).await.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_request_is_submitted_again_as_it_was_and_linked_both_ways() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let old: RequestId = session
        .text(r#"select id from tidegate.submit('public_decrypt', '{"b": [1, 2.50], "a": "ä"}', submitter => 'ann')"#)
        .await
        .parse()
        .unwrap();
    database
        .execute(&format!(
            "select tidegate.webhook_host_add('hooks.example.com');
             select tidegate.set_callback('{old}', 'https://hooks.example.com/a');
             select tidegate.time_out(array['{old}']::uuid[])"
        ))
        .await;

    assert_eq!(session.texts(REDRIVE).await, ["1 0"]);

    let new = redriven_as(&mut session, old).await;
    assert_eq!(database.status(old).await, "timed_out");
    assert_eq!(database.status(new).await, "queued");
    assert_eq!(
        session
            .text(&format!(
                "select (n.kind, n.payload, n.submitter, n.callback_url) = (o.kind, o.payload, o.submitter, o.callback_url)
                 from tidegate.request as n, tidegate.request as o where n.id = '{new}' and o.id = '{old}'"
            ))
            .await,
        "t"
    );
    assert_eq!(database.causes(new).await, ["submitted"]);
    assert_eq!(
        session
            .texts("select request_id, req_status, code, redriven_as, redriven_status from tidegate.redrive_overview")
            .await,
        [format!("{old} timed_out readiness_timed_out {new} queued")]
    );
    for (id, reason) in [(old, "redriven"), (new, "redrive")] {
        assert_eq!(
            session.texts(&format!("select reason from tidegate.explain('{id}')")).await.last().unwrap(),
            reason
        );
    }
    let got = run(&database.url, &["get", "--json", &old.to_string()]).await;
    let got: Value = serde_json::from_slice(&got.stdout).unwrap();
    assert_eq!(got["redriven_as"], new.to_string());
    // Once is enough.
    assert_eq!(session.texts(REDRIVE).await, ["0 0"]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redriven_request_that_fails_too_may_be_redriven_in_its_turn() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let first = failed(&database, "direct", 1).await[0];
    session.texts(REDRIVE).await;
    let second = redriven_as(&mut session, first).await;
    database.execute(&format!("select tidegate.fail_internal(array['{second}']::uuid[])")).await;

    assert_eq!(session.texts(REDRIVE).await, ["1 0"]);
    let third = redriven_as(&mut session, second).await;
    assert_eq!(redriven_as(&mut session, first).await, second);
    assert_eq!(database.status(third).await, "processing");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_at_once_submit_each_request_once() {
    let database = TestDatabase::unlimited().await;
    failed(&database, "direct", 60).await;
    receipt(&database, "direct", None).await;

    let arguments = ["--batch", "7"];
    let ((_, one), (_, other), (_, third)) =
        tokio::join!(redrive(&database, &arguments), redrive(&database, &arguments), redrive(&database, &arguments));

    let counts: Vec<_> = [one, other, third].iter().map(|summary| summary["redriven"].as_i64().unwrap()).collect();
    assert_eq!(counts.iter().sum::<i64>(), 60, "{counts:?}");
    assert_eq!(database.number("select count(*) from tidegate.request where req_status = 'processing'").await, 60);
    assert_eq!(database.number("select count(distinct redriven_as) from tidegate.redrive").await, 60);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_dies_half_way_has_submitted_what_it_linked_and_no_more() {
    let database = TestDatabase::unlimited().await;
    failed(&database, "direct", 100).await;
    // It stops at the link of this one, with its new request made and not committed.
    let victim = database.text("select id from tidegate.request order by id offset 55 limit 1").await.unwrap();
    let mut other = Session::begin(&database).await;
    other
        .execute(&format!(
            "insert into tidegate.redrive (request_id, redriven_as) values ('{victim}', tidegate_internal.uuid_v7())"
        ))
        .await;
    let mut process = tidegate(&database.url).args(["redrive", "--batch", "10"]).stdout(Stdio::null()).spawn().unwrap();
    let waiting = "from pg_locks as l join pg_stat_activity as a on a.pid = l.pid and a.datname = current_database()
         where not l.granted and l.locktype = 'transactionid'";
    eventually("it waits for the other", || async {
        database.number(&format!("select count(*) {waiting}")).await == 1
    })
    .await;
    process.kill().await.unwrap();
    database.execute(&format!("select pg_terminate_backend(l.pid) {waiting}")).await;
    other.rollback().await;

    let linked = database.number("select count(*) from tidegate.redrive").await;
    assert_eq!(linked, 50);
    assert_eq!(database.number("select count(*) from tidegate.request where req_status = 'processing'").await, linked);
    let (_, rest) = redrive(&database, &[]).await;
    assert_eq!(rest["redriven"], 50);
    let mut session = Session::open(&database).await;
    assert_eq!(session.texts("select name, samples from tidegate.invariant_violation").await, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_link_goes_with_the_old_request_and_outlives_the_new_one() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let old = failed(&database, "direct", 1).await[0];
    session.texts(REDRIVE).await;
    let new = redriven_as(&mut session, old).await;
    database
        .execute(&format!("select tidegate.cancel('{new}'); delete from tidegate.request where id = '{new}'"))
        .await;

    assert_eq!(session.texts(REDRIVE).await, ["0 0"]);
    database.execute(&format!("delete from tidegate.request where id = '{old}'")).await;
    assert_eq!(database.number("select count(*) from tidegate.redrive").await, 0);
}
