//! Does everything hold whatever else is in the database, on the server or between them?

use std::{process::Stdio, time::Duration};

use sqlx::{Connection, PgConnection};
use tidegate::internals::metrics::Metrics;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::schemas::migrating;
use crate::{
    cli::commands::{err, out, run, serve, tidegate},
    support::{TestDatabase, eventually, race::Session, sql, until_blocked},
    worker::lives,
};

/// Everything that users, DBAs and operators read or do with one call.
const BY_HAND: [&str; 13] = [
    "select from tidegate.submit('direct', '{}', submitter => 'me')",
    "select from tidegate.submit_batch('public_decrypt', array['{}'::jsonb, '[]'])",
    "select from tidegate.claim_tx('tx', 'me', 2, '30 seconds')",
    "select from tidegate.claim_readiness('readiness', 'me', 1, '30 seconds')",
    "update tidegate.queue set paused = true",
    "update tidegate.queue set paused = false",
    "update tidegate.kind set deadline = '2 hours'",
    "update tidegate.policy set jitter_ms = 1",
    "update tidegate.gate set high_water = 5000",
    "update tidegate.setting set max_seconds = 700",
    "insert into tidegate.queue (name, stage) values ('another', 'tx')",
    "select from tidegate.config_set('tx.burst', '3')",
    "call tidegate.maintain()",
];

const VIEWS: [&str; 15] = [
    "breaker_overview",
    "config",
    "estimator_overview",
    "eta_quality",
    "gate_history",
    "invariant_violation",
    "key_list",
    "maintenance_overview",
    "policy_overview",
    "queue_overview",
    "request_eta",
    "request_overview",
    "sli",
    "unserved",
    "worker_overview",
];

/// A request of each flow, by worker and by SQL; then the functions that read them.
async fn live(database: &TestDatabase) {
    for kind in ["public_decrypt", "input_proof", "direct"] {
        database.submit(kind).await;
    }
    lives::run_to_the_end(database, Metrics::default()).await;
    let mut by_hand = PgConnection::connect(&database.url).await.unwrap();
    // `submit` requires this setting; every other function takes that of the session.
    sql::run(&mut by_hand, "set default_transaction_isolation = 'read committed'").await;
    for sql in BY_HAND {
        sql::run(&mut by_hand, sql).await;
    }
    for view in VIEWS {
        sql::run(&mut by_hand, &format!("table tidegate.{view}")).await;
    }
    by_hand.close().await.unwrap();
    let id = database.submit("direct").await.to_string();
    for words in [
        &["doctor"][..],
        &["status"],
        &["explain", &id],
        &["audit", "replay", &id],
        &["recover", "--dry-run"],
        &["contract", "check"],
        &["config", "history"],
        &["cancel", &id],
    ] {
        let ran = run(&database.url, words).await;
        // Some of them find the edits above worth a word; none has an error of its own.
        assert!(!err(&ran).contains("tidegate:"), "{words:?}: {}{}", out(&ran), err(&ran));
    }
}

/// A migrated database, with the example, made by the programs.
async fn set_up(database: &TestDatabase) {
    for words in [&["migrate"][..], &["init", "--example", "relayer"]] {
        let ran = run(&database.url, words).await;
        assert!(ran.status.success(), "{words:?}: {}", err(&ran));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_and_operators_of_strangers_are_never_called() {
    let database = TestDatabase::empty().await;
    database.execute(include_str!("strangers.sql")).await;
    let strangers = "select count(*) from pg_proc where pronamespace = 'public'::regnamespace";
    assert!(database.number(strangers).await > 3000);
    // Objects of other schemas come first without a search_path.
    let mut first = PgConnection::connect(&database.url).await.unwrap();
    sql::run(
        &mut first,
        "do $$ begin
           execute pg_catalog.format('alter database %I set search_path = public, pg_catalog', pg_catalog.current_database());
         end $$",
    )
    .await;
    let mut unwary = PgConnection::connect(&database.url).await.unwrap();
    let called = sql::refused(&mut unwary, "select length('a'::text)").await;
    assert!(called.message.contains("is called"), "{called:?}");

    set_up(&database).await;
    live(&database).await;

    assert_eq!(
        database.number("select last_value from public.strangers_called").await,
        1,
        "only the one that the test called itself"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_or_database_sets_for_its_sessions_changes_nothing() {
    let database = TestDatabase::empty().await;
    let mut first = Session::open(&database).await;
    for (name, value) in [
        ("default_transaction_isolation", "repeatable read"),
        ("default_transaction_deferrable", "on"),
        ("standard_conforming_strings", "off"),
        ("backslash_quote", "off"),
        ("escape_string_warning", "off"),
        ("array_nulls", "off"),
        ("transform_null_equals", "on"),
        ("datestyle", "SQL, DMY"),
        ("intervalstyle", "iso_8601"),
        ("timezone", "Pacific/Chatham"),
        ("bytea_output", "escape"),
        ("extra_float_digits", "-5"),
        ("plan_cache_mode", "force_custom_plan"),
        ("quote_all_identifiers", "on"),
        ("row_security", "off"),
        ("check_function_bodies", "off"),
        ("synchronous_commit", "off"),
        ("xmloption", "document"),
        ("lock_timeout", "100ms"),
    ] {
        first
            .execute(&format!(
                "do $$ begin
                   execute format('alter database %I set {name} = {value:?}', current_database());
                 end $$"
            ))
            .await;
    }

    set_up(&database).await;
    live(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_have_timeouts_of_their_own() {
    let database = TestDatabase::empty().await;
    let mut first = Session::open_as_superuser(&database).await;
    let set_timeouts = |milliseconds: u32| {
        format!(
            "do $$ begin
               execute format('alter database %I set statement_timeout = {milliseconds}', current_database());
               execute format('alter database %I set lock_timeout = {milliseconds}', current_database());
             end $$"
        )
    };
    // `migrate` sets its own by a statement, which takes its time; its work takes longer.
    first.execute(&set_timeouts(30)).await;
    first
        .execute(
            "create function public.slowly() returns event_trigger language plpgsql as $$ begin perform pg_sleep(0.1); end $$;
             create event trigger slowly on ddl_command_start when tag in ('CREATE SCHEMA', 'CREATE VIEW')
             execute function public.slowly()",
        )
        .await;

    let migrated = run(&database.url, &["migrate"]).await;
    assert!(migrated.status.success(), "{}", err(&migrated));

    first.execute("drop event trigger slowly").await;
    first.execute(&set_timeouts(1)).await;
    for words in [&["init", "--example", "relayer"][..], &["submit", "direct"], &["recover"], &["doctor"]] {
        let ran = run(&database.url, words).await;
        assert!(ran.status.success(), "{words:?}: {}", err(&ran));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_refuses_a_database_of_another_encoding_before_it_changes_anything() {
    let database = TestDatabase::in_latin1().await;
    let refused = run(&database.url, &["migrate"]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("nothing was changed: the database's encoding is LATIN1"), "{}", err(&refused));
    let schemas = "select count(*) from pg_namespace where nspname in ('tidegate', 'pgmq', 'tidegate_internal')";
    assert_eq!(database.number(schemas).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_beside_an_open_transaction_keeps_no_submission_waiting_and_goes_on_when_it_ends() {
    for held in [
        "select count(*) from tidegate.request",
        "select from tidegate.submit('direct', '{}')",
        "update tidegate.kind set deadline = deadline where name = 'direct'",
    ] {
        let database = TestDatabase::unlimited().await;
        database.execute("update tidegate.schema_state set fingerprint = 'that of another version'").await;
        // Where a migration of tables would be waiting.
        let mut holder = Session::begin(&database).await;
        holder.texts(held).await;
        let mut other = Session::begin(&database).await;
        other.execute("lock table tidegate.setting in row exclusive mode").await;

        let (mut migrating, mut lines) = migrating(&database.url);
        let mut session = Session::open(&database).await;
        session.execute("set lock_timeout = '1s'").await;
        let mut submissions = tokio::time::interval(Duration::from_millis(5));
        let mut told = 0;
        while told < 3 {
            tokio::select! {
                line = lines.next_line() => {
                    let line = line.unwrap().expect("it waits");
                    told += usize::from(line.contains("waiting for locks"));
                }
                _ = submissions.tick() => {
                    let submitted = session.attempt("select outcome from tidegate.submit('direct', '{}')").await;
                    assert_eq!(submitted.unwrap(), ["accepted"], "{held}");
                }
            }
        }
        assert_eq!(
            database.text("select fingerprint from tidegate.schema_state").await.as_deref(),
            Some("that of another version")
        );

        holder.rollback().await;
        other.rollback().await;
        let ended = migrating.wait().await.unwrap();
        assert!(ended.success(), "{held}");
    }
}

/// The lines that a node wrote while its database went away and came back, with several calls meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_says_once_that_its_database_is_away_and_once_that_it_is_back() {
    let database = TestDatabase::new().await;
    let (mut node, url) = serve(&database.url, &[]).await;
    let url = url + "/v1/direct";
    let mut log = BufReader::new(node.stderr.take().unwrap()).lines();
    let client = reqwest::Client::new();
    let post = async || client.post(&url).json(&1).send().await.unwrap().status().as_u16();
    assert_eq!(post().await, 202);

    database.cut().await;
    for _ in 0..20 {
        assert_eq!(post().await, 503);
    }
    database.restore().await;
    eventually("it takes submissions again", || async { post().await == 202 }).await;
    let mut of_the_database = Vec::new();
    while of_the_database.len() < 2 {
        let line = log.next_line().await.unwrap().unwrap();
        if line.contains("WARN") && !line.contains("API key") && !line.contains("open files") {
            of_the_database.push(line);
        }
    }
    node.kill().await.unwrap();
    while let Some(line) = log.next_line().await.unwrap() {
        of_the_database.push(line);
    }

    assert_eq!(of_the_database.len(), 2, "{of_the_database:#?}");
    let [away, back] = [&of_the_database[0], &of_the_database[1]];
    assert!(away.contains("the database is unavailable"), "{away}");
    assert!(away.contains(&database.name), "{away}");
    assert!(back.contains("the database is back"), "{back}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_program_has_asked_ends_though_what_it_waits_for_does_not() {
    let database = TestDatabase::new().await;
    let mut holder = Session::begin(&database).await;
    holder.execute("lock table tidegate.request in exclusive mode").await;
    let mut killed = tidegate(&database.url).args(["submit", "direct"]).stdout(Stdio::null()).spawn().unwrap();
    until_blocked(&database, 1).await;

    killed.kill().await.unwrap();

    eventually("its session has ended", || async {
        let waiting = "select count(*) from pg_stat_activity
                       where datname = current_database() and wait_event_type = 'Lock'";
        database.number(waiting).await == 0
    })
    .await;
    holder.rollback().await;
}
