//! Do backoffs lengthen while a stage fails or a queue is congested, and take nothing else from a request?

use super::{DUE, calls};
use crate::support::{
    TestDatabase,
    race::{Session, settle, submit_many},
};

#[tokio::test(flavor = "multi_thread")]
async fn lengthened_backoffs_take_no_attempt_away() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    submit_many(&database, "direct", 1).await;
    let mut session = Session::open(&database).await;
    database
        .execute(
            "select tidegate_internal.policy_activate('direct', 'tx', 8, true, 'retry_rate', null, clock_timestamp())",
        )
        .await;
    let again = r#"array['{"code": "http_503"}'::jsonb], array['0 s'::interval]"#;
    for _ in 0..4 {
        let held = session.claim("tx", 1).await;
        assert_eq!(held[0].attempts_max, 5);
        session.execute(&settle("settle_retry", &held, again)).await;
        assert_eq!(database.status(held[0].id).await, "processing");
        session.execute(DUE).await;
    }
    let held = session.claim("tx", 1).await;
    session.execute(&settle("settle_retry", &held, again)).await;
    assert_eq!(database.causes(held[0].id).await.last().map(String::as_str), Some("attempts_exhausted"));
}

/// How long the next attempt of a send has to wait that failed when `passed` of its time was over, in seconds.
async fn wait_after(database: &TestDatabase, passed: &str) -> Option<f64> {
    let mut session = Session::open(database).await;
    submit_many(database, "direct", 1).await;
    let held = session.claim("tx", 1).await;
    database
        .execute(&format!(
            "update tidegate.request set tx_attempt = 3 where id = '{0}';
             update tidegate.stored_event set at = at - interval '{passed}' where request_id = '{0}' and cause = 'claimed'",
            held[0].id
        ))
        .await;
    let failed = r#"array['{"code": "http_503"}'::jsonb]"#;
    session.execute(&settle("settle_retry", &held, failed)).await;
    if database.status(held[0].id).await == "failure" {
        return None;
    }
    let wait = format!(
        "select extract(epoch from m.vt - clock_timestamp()) * 1000 from pgmq.q_tx as m
         join tidegate.request as r on r.msg_id = m.msg_id where r.id = '{}'",
        held[0].id
    );
    Some(database.value(&wait).await.parse::<f64>().unwrap() / 1000.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lengthened_backoff_ends_nothing_that_the_declared_one_would_carry_on() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    database
        .execute(
            "update tidegate.policy set base_ms = 2000, jitter_ms = 0, timeout_ms = 5000 where kind = 'direct';
             select tidegate_internal.policy_activate('direct', 'tx', 8, false, 'retry_rate', null, clock_timestamp())",
        )
        .await;
    // The third backoff is 8 s, lengthened 64 s; the last attempt begins before 119 s have passed, with time for two calls.
    for (passed, waits) in [
        ("0 s", Some(64.0)),
        ("45 s", Some(64.0)),
        ("50 s", Some(59.0)),
        ("60 s", Some(49.0)),
        ("100 s", Some(9.0)),
        // The declared one, and no shorter.
        ("109 s", Some(8.0)),
        ("112 s", None),
    ] {
        let waited = wait_after(&database, passed).await;
        match (waited, waits) {
            (Some(waited), Some(waits)) => {
                assert!((waits - 1.5..=waits).contains(&waited), "{passed}: {waited} s");
            }
            (waited, waits) => assert_eq!(waited, waits, "{passed}"),
        }
    }
}

/// The stretch of `direct` sends, with the backoffs and attempts that follow.
async fn in_force(database: &TestDatabase) -> String {
    database
        .value(
            "select trim_scale(stretch) || ' ' || congested || ' ' || attempts || ' ' || base_ms || ' ' || cap_ms
             from tidegate.policy_in_force where kind = 'direct'",
        )
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn backoffs_lengthen_while_a_stage_fails_and_relax_when_it_works_again() {
    let database = TestDatabase::new().await.with_short_policies().await;
    let adjust = |after: &str| format!("select tidegate.adjust_policies(clock_timestamp() + interval '{after}')");
    assert_eq!(in_force(&database).await, "1 false 5 500 30000");
    calls(&database, "clock_timestamp() + interval '5 s'", 100, 30, 0).await;

    assert_eq!(database.value(&adjust("10 s")).await, "1");
    assert_eq!(in_force(&database).await, "2 false 5 1000 60000");
    // Not again before the first change can have had an effect.
    assert_eq!(database.value(&adjust("15 s")).await, "0");
    assert_eq!(database.value(&adjust("21 s")).await, "1");
    assert_eq!(in_force(&database).await, "4 false 5 2000 120000");
    assert_eq!(database.value(&adjust("32 s")).await, "1");
    assert_eq!(in_force(&database).await, "8 false 5 4000 240000");
    calls(&database, "clock_timestamp() + interval '40 s'", 100, 30, 0).await;
    assert_eq!(database.value(&adjust("43 s")).await, "0", "as far as it goes");

    for (after, stretch) in [("75 s", "4"), ("86 s", "2"), ("97 s", "1")] {
        calls(&database, &format!("clock_timestamp() + interval '{after}' - interval '1 s'"), 100, 1, 0).await;
        assert_eq!(database.value(&adjust(after)).await, "1", "{after}");
        assert!(in_force(&database).await.starts_with(&format!("{stretch} ")), "{after}");
    }
    assert_eq!(in_force(&database).await, "1 false 5 500 30000");
    assert_eq!(
        database
            .column("select cause || ' ' || trim_scale(stretch) || ' ' || (figures ->> 'retry_rate') from tidegate.policy_change where kind = 'direct' and cause <> 'declared' order by id")
            .await,
        [
            "retry_rate 2 0.3000",
            "retry_rate 4 0.3000",
            "retry_rate 8 0.3000",
            "recovered 4 0.0100",
            "recovered 2 0.0100",
            "recovered 1 0.0100",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn timeouts_lengthen_backoffs_too_and_few_calls_tell_nothing() {
    let database = TestDatabase::new().await;
    calls(&database, "clock_timestamp()", 10, 9, 9).await;
    assert_eq!(database.value("select tidegate.adjust_policies()").await, "0");
    calls(&database, "clock_timestamp()", 90, 0, 0).await;
    assert_eq!(database.value("select tidegate.adjust_policies()").await, "1");
    assert_eq!(
        database
            .value("select cause || ' ' || (figures ->> 'timeout_rate') from tidegate.policy_change where cause <> 'declared'")
            .await,
        "timeout_rate 0.0900"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_congested_queue_has_longer_backoffs_until_it_passes() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    database.execute("update tidegate.gate set high_water = 30, low_water = 15 where queue = 'tx'").await;
    submit_many(&database, "direct", 30).await;
    database.execute("select tidegate.gates_evaluate()").await;
    assert_eq!(database.value("select tidegate.adjust_policies()").await, "4", "every kind of the queue");
    assert_eq!(in_force(&database).await, "1 true 5 1000 60000");

    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 20).await;
    session.execute(&settle("settle_receipt", &held, "null, array_fill('1'::jsonb, array[20])")).await;
    assert_eq!(database.value("select tidegate.adjust_policies()").await, "4");
    assert_eq!(in_force(&database).await, "1 false 5 500 30000");
    assert_eq!(
        database.column("select cause from tidegate.policy_change where kind = 'direct' order by id").await,
        ["declared", "declared", "congestion", "recovered"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn as_much_coming_as_may_leave_is_congestion_even_below_the_mark() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    database.execute("update tidegate.queue set per_seconds = 2 where name = 'tx'").await;
    let adjust = |after: &str| format!("select tidegate.adjust_policies(clock_timestamp() + interval '{after}')");
    database.execute(&adjust("0 s")).await;
    submit_many(&database, "direct", 25).await;
    database.execute(&adjust("11 s")).await;
    assert_eq!(in_force(&database).await, "1 true 5 1000 60000");
    database.execute(&adjust("22 s")).await;
    assert_eq!(in_force(&database).await, "1 false 5 500 30000");
}
