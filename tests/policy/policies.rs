//! Policies: the version that an attempt goes by, how long a call lasts, timeouts that are learned, indicators.

mod backoffs;
mod budgets;
mod retries;

use crate::support::{
    TestDatabase,
    race::{Session, settle, submit_many},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_goes_by_the_version_that_was_in_force_when_it_began() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    submit_many(&database, "direct", 1).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 1).await;
    database.execute("update tidegate.policy set attempts = 1 where kind = 'direct'").await;
    // Under the new policy it was the last one, under its own the first of five.
    let settle = settle("settle_retry", &held, r#"array['{"code": "http_503"}'::jsonb], array['0 s'::interval]"#);
    session.execute(&settle).await;
    assert_eq!(database.status(held[0].id).await, "processing");
    let versions = database
        .column("select version || ' ' || cause || ' ' || (in_force ->> 'attempts') from tidegate.policy_change where kind = 'direct' order by version")
        .await;
    assert_eq!(versions, ["1 declared 38", "2 declared 5", "3 declared 1"]);
}

/// What waits for its next attempt is due.
const DUE: &str = "update pgmq.q_tx set vt = now() where vt > now();
                   update pgmq.q_readiness set vt = now() where vt > now()";

#[tokio::test(flavor = "multi_thread")]
async fn a_call_lasts_no_longer_than_its_request() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "begin;
             update tidegate.policy set attempts = 1, timeout_ms = 10000 where kind = 'direct';
             update tidegate.kind set deadline = '10 s', readiness_timeout = '10 s' where name = 'direct';
             commit",
        )
        .await;
    submit_many(&database, "direct", 1).await;
    let timeout = database.number("select timeout_ms from tidegate.claim_tx('tx', 'w', 1, '30 s')").await;
    assert!((1..10_000).contains(&timeout), "{timeout}");
}

/// Reports calls of `direct` sends at `at`, as settles would.
async fn calls(database: &TestDatabase, at: &str, requests: i64, retries: i64, timeouts: i64) {
    database
        .execute(&format!(
            "insert into tidegate.call_sample
             values ('direct', 'tx', {at}, {requests}, {requests} + {retries}, {retries} + {timeouts}, {timeouts}, {retries}, 0, 0,
               array_fill(20, array[16]))"
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_percentile_timeout_follows_the_latencies_below_the_declared_bound() {
    let database = TestDatabase::new().await;
    database
        .execute("update tidegate.policy set timeout_mode = 'percentile', percentile = 0.5, safety_factor = 3, hedge_safe = true, hedge_max = 1 where kind = 'direct'")
        .await;
    let now = "select timeout_ms || ' ' || coalesce(hedge_after_ms::text, 'none') from tidegate.policy_in_force where kind = 'direct'";
    assert_eq!(database.value(now).await, "10000 none");
    for second in 0..10 {
        calls(&database, &format!("clock_timestamp() - interval '{second} s'"), 16, 0, 0).await;
    }
    database.execute("select tidegate.fold_calls(); select tidegate.adjust_policies()").await;
    assert_eq!(database.value(now).await, "60 20");
    // A longer backoff keeps the learned values; a lower bound does not.
    database.execute("update tidegate.policy set timeout_ms = 40 where kind = 'direct'").await;
    assert_eq!(database.value(now).await, "40 20");
    database.execute("delete from tidegate.call_second; select tidegate.adjust_policies()").await;
    assert_eq!(database.value(now).await, "40 none");
}

#[tokio::test(flavor = "multi_thread")]
async fn indicators_are_there_in_sql_under_both_names() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    submit_many(&database, "direct", 4).await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 4).await;
    session
        .execute(&settle(
            "settle_receipt",
            &held[..3],
            "null, array_fill('1'::jsonb, array[3]), array[10, 20, 30], array[0, 1, 0]",
        ))
        .await;
    session
        .execute(&settle("settle_retry", &held[3..], r#"array['{"code": "timeout"}'::jsonb], null, null, array[900]"#))
        .await;
    database
        .execute("insert into tidegate.submission_sample (kind, submitted, replayed) values ('direct', 200, 1)")
        .await;
    let shown = "select row(requests, calls, retry_rate, timeout_rate, error_ratio, dup_drop_rate, p50_ms, p99_ms, slo_p99_ms, hedges, within_gate)::text
                 from tidegate.sli where kind = 'direct'";
    let expected = "(4,4,0.250000,0.250000,0.250000,0.005000,20,900,,1,t)";
    assert_eq!(database.value(shown).await, expected);
    database.execute("select tidegate.fold_calls()").await;
    assert_eq!(database.value(shown).await, expected, "folded, it says the same");
    assert_eq!(
        database.column("select name || ' ' || trim_scale(value) from tidegate.sli_alias where kind = 'direct'").await,
        [
            "Threads.circuit.open_ratio 0",
            "Threads.dedup.drop_rate 0.005",
            "Threads.hedge.count 1",
            "Threads.retry.rate 0.25",
            "Threads.timeout.rate 0.25",
        ]
    );
    assert_eq!(
        database
            .value("select p_drop || ' ' || p_ok || ' ' || expected_attempts || ' ' || w_retry_ms from tidegate.policy_overview where kind = 'direct'")
            .await,
        "0.250000 0.999023 1.3320 58500"
    );

    for (target, within) in [(900, "t"), (899, "f")] {
        database
            .execute(&format!(
                "select tidegate.config_set_many('{{\"direct.slo_p99_ms\": {target}, \"direct.tx.timeout_ms\": 100}}')"
            ))
            .await;
        let told = database.value(shown).await;
        assert!(told.ends_with(&format!(",20,900,{target},1,{within})")), "{told}");
    }
}
