//! Thousands who wait on one node: what they cost while they wait, and when all end at once.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use serde_json::json;
use sqlx::PgConnection;
use tidegate::{
    internals::store::{Admission, Submitted},
    request::{RequestId, Status},
};
use tidegate_node::HttpOptions;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::Instant,
};

use super::waiting::{Elsewhere, Listening};
use crate::support::{TestDatabase, campaign, raw, server};

/// How many wait. So many that the other transactions are few beside them: those of sessions that begin, and of
/// listeners, which any database's notifications may wake.
fn all() -> usize {
    campaign(5000, 10_000)
}

/// Over sockets; this process has both ends of each.
fn over_http() -> usize {
    campaign(1000, 2000)
}

/// How many looks are measured.
const LOOKS: u32 = 8;

/// For how many requests one call asks.
const IN_ONE_CALL: usize = 5000;

/// Ends every session but the listeners', because a session may report what it did late, but reports all before it ends.
///
/// Once all are idle: ending them while one is busy only makes new ones. This asks in another database, so that its own
/// statements do not count, however long it waits.
async fn end_sessions(database: &TestDatabase) -> PgConnection {
    let mut elsewhere = server::admin().await;
    let sessions =
        format!("pg_stat_activity as a where a.datname = '{}' and a.query !~* '^ *(un)?listen'", database.name);
    loop {
        let is_idle = format!("select coalesce(bool_and(a.state is not distinct from 'idle'), true) from {sessions}");
        if sqlx::query_scalar(&is_idle).fetch_one(&mut elsewhere).await.unwrap() {
            // False, too, of a session that has just ended by itself.
            let end = format!("select pg_terminate_backend(a.pid, 10000) from {sessions}");
            sqlx::raw_sql(&end).execute(&mut elsewhere).await.unwrap();
            return elsewhere;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What was asked so far: all statements, which are transactions here, because no client opens one; and the calls of each
/// function of the API, in sessions that count calls.
async fn asked(database: &TestDatabase) -> (i64, BTreeMap<String, i64>) {
    let statements = "select xact_commit + xact_rollback from pg_stat_database where datname = $1";
    let statements =
        sqlx::query_scalar(statements).bind(&database.name).fetch_one(&mut end_sessions(database).await).await.unwrap();
    let calls = "select funcname::text, calls from pg_stat_user_functions where schemaname = 'tidegate'";
    let mut session = database.session().await;
    let calls: Vec<(String, i64)> = sqlx::query_as(calls).fetch_all(&mut session).await.unwrap();
    (statements, calls.into_iter().collect())
}

async fn submit_all(database: &TestDatabase) -> Vec<RequestId> {
    let payloads = vec![raw(&json!({})); all()];
    let submitted =
        database.store.submit_batch("direct", &payloads, None, None, Admission::Accepted, None).await.unwrap();
    submitted
        .into_iter()
        .map(|submitted| match submitted {
            Submitted::Accepted(ticket) => ticket.id,
            other => panic!("{other:?}"),
        })
        .collect()
}

/// Asks and reads the answer whole; the connection stays open no longer than that.
async fn poll(mut stream: TcpStream) -> String {
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    said
}

/// A session whose transaction delays the reads for callers, and no looks, until it commits.
async fn delaying_reads(database: &TestDatabase) -> PgConnection {
    let mut session = database.session().await;
    let lock = "begin; lock table tidegate.redrive in access exclusive mode";
    sqlx::raw_sql(lock).execute(&mut session).await.unwrap();
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_waiting_callers_cost_a_few_statements_and_all_get_their_answer() {
    let database = TestDatabase::unlimited().await;
    let options = HttpOptions { wait_max: Duration::from_secs(600), ..HttpOptions::default() };
    let node = Listening::start(&database, &options).await;
    let elsewhere = Elsewhere::start(&database, 1).await;
    let (all, over_http) = (all(), over_http());
    let ids = submit_all(&database).await;

    let mut answers = JoinSet::new();
    for (asked, ids) in ids[..over_http].chunks(200).enumerate() {
        for id in ids {
            let mut stream = TcpStream::connect(node.api.address).await.unwrap();
            let call = format!(
                "GET /v1/direct/{id} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nprefer: wait=600\r\n\r\n"
            );
            stream.write_all(call.as_bytes()).await.unwrap();
            answers.spawn(poll(stream));
        }
        // Few enough at once that every one of them gets its turn at the database.
        node.until_waiting((asked + 1) * 200).await;
    }
    let waiters: Vec<_> = ids[over_http..].iter().map(|id| node.node.waiters().wait_for(*id).unwrap()).collect();
    node.until_waiting(all).await;

    let counting = format!("alter database \"{}\" set track_functions = 'all'", database.name);
    sqlx::raw_sql(&counting).execute(&mut server::admin().await).await.unwrap();
    // The session that looks is idle afterwards.
    node.until_looked().await;
    let (began, polls) = (Instant::now(), node.node.waiters().waiting().polls);
    let (before, calls_before) = asked(&database).await;
    for _ in 0..LOOKS {
        node.until_looked().await;
    }
    let (looked, mut calls) = asked(&database).await;
    // One may be under way.
    let looks = node.node.waiters().waiting().polls - polls + 1;
    let seconds = began.elapsed().as_secs();
    for (function, calls) in &mut calls {
        *calls -= calls_before.get(function).unwrap_or(&0);
        let allowed = match function.as_str() {
            "moved_since" => looks * u64::try_from(all.div_ceil(IN_ONE_CALL)).unwrap(),
            // The node's own, however many wait.
            "gate_copy" => seconds + 2,
            "watch" => seconds / 5 + 2,
            _ => 0,
        };
        assert!(
            u64::try_from(*calls).unwrap() <= allowed,
            "{calls} calls of {function} in {looks} looks and {seconds} s, {allowed} are allowed"
        );
    }
    let per_look = calls.values().sum::<i64>() / i64::from(LOOKS);
    assert!(per_look <= 10, "{per_look} calls in each look: {calls:?}");
    // The first look finds its connection closed.
    assert!(calls["moved_since"] >= i64::from(LOOKS) - 1, "{calls:?}");
    // Those that connect, and that call no function of the API, too.
    let statements = looked - before;
    assert!(statements < i64::try_from(all / 20).unwrap(), "{statements}, with {calls:?}");
    // It connects again.
    node.until_looked().await;
    assert!(answers.try_join_next().is_none(), "one answer came too early");

    // So all callers ask before the first is answered.
    let mut lock = delaying_reads(&database).await;
    let began = Instant::now();
    let mut session = database.session().await;
    sqlx::query("select tidegate.fail_internal($1)")
        .bind(ids.iter().map(|id| id.0).collect::<Vec<_>>())
        .execute(&mut session)
        .await
        .unwrap();
    let ended = began.elapsed();
    // More than may be announced: the rest is found by looking.
    elsewhere.announcer.note(ids.iter().map(|id| (*id, Status::Failure)));

    join_all(waiters.into_iter().map(|mut waiter| async move {
        waiter.ended().await;
    }))
    .await;
    assert!(answers.try_join_next().is_none(), "one was answered without a read");
    sqlx::raw_sql("commit").execute(&mut lock).await.unwrap();
    let mut answered = 0;
    while let Some(said) = answers.join_next().await {
        let said = said.unwrap();
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
        assert!(said.contains("\"code\":\"internal_error\""), "{said}");
        answered += 1;
    }
    assert_eq!(answered, over_http);
    let took = began.elapsed();
    node.until_waiting(0).await;
    let (statements_after, calls) = asked(&database).await;
    // A hundred in each statement, because they come together.
    let (asked, reads) = (statements_after - looked, calls["request_outlooks"]);
    assert!(
        asked < i64::try_from(over_http / 4).unwrap() && reads < i64::try_from(over_http / 20).unwrap(),
        "{asked} statements, {reads} of them reads, for {over_http} answers in {took:?}"
    );
    eprintln!(
        "{all} waiters: {per_look} calls in each look, {statements} statements in all; ended in {ended:?}, all answered after {took:?}, {asked} statements, {reads} reads"
    );
}
