//! Which failures are tried again, when, and do they use an attempt?

use super::DUE;
use crate::support::{
    TestDatabase,
    race::{Session, settle, submit_many},
};

/// The state of a request whose first send ends with `error`.
async fn after(database: &TestDatabase, error: &str, more: &str) -> String {
    submit_many(database, "direct", 1).await;
    let mut session = Session::open(database).await;
    let held = session.claim("tx", 1).await;
    assert_eq!(held.len(), 1);
    let settle = settle("settle_retry", &held, &format!("array['{error}'::jsonb]{more}"));
    session.execute(&settle).await;
    let id = held[0].id;
    let became = database
        .value(&format!(
            "select r.req_status || ' ' || r.cause || ' ' || (r.error ->> 'code') || case
               when m.vt is null then '' when m.vt = '-infinity' then ' at once'
               else ' in ' || round(extract(epoch from m.vt - r.processing_at)) end
             from tidegate.request as r left join pgmq.q_tx as m on m.msg_id = r.msg_id where r.id = '{id}'"
        ))
        .await;
    session.execute(&format!("select from tidegate.cancel('{id}') where '{became}' like 'processing%'")).await;
    became
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_may_succeed_is_sent_again() {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.policy set base_ms = 7000, factor = 1, jitter_ms = 0, retry_on = '{5xx,timeout,throttled,mine}'")
        .await;
    for (error, left, becomes) in [
        ("http_503", true, "processing send_retried http_503 in 7"),
        ("timeout", true, "processing send_retried timeout in 7"),
        ("http_429", false, "processing send_retried http_429 in 7"),
        ("mine", true, "processing send_retried mine in 7"),
        ("http_400", true, "failure rejected http_400"),
        ("http_404", false, "failure rejected http_404"),
        ("http_422", true, "failure rejected http_422"),
        ("connect", false, "failure rejected connect"),
        ("connection_lost", true, "failure outcome_unknown outcome_unknown"),
        ("theirs", true, "failure outcome_unknown outcome_unknown"),
        ("theirs", false, "failure rejected theirs"),
    ] {
        let json = format!(r#"{{"code": "{error}", "message": "so it is", "retryable": true}}"#);
        assert_eq!(after(&database, &json, &format!(", null, array[{left}]")).await, becomes, "{error}");
    }
    assert_eq!(
        after(&database, "{}", "").await,
        "failure outcome_unknown outcome_unknown",
        "an error without a code is no class that is listed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_that_is_excluded_is_not_sent_again_though_its_class_is_listed() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy set base_ms = 7000, factor = 1, jitter_ms = 0;
             select tidegate.config_set('direct.tx.retry_on', '5xx,!501,!http_505,connect,!connection_lost,other,!mine')",
        )
        .await;
    for (error, left, becomes) in [
        ("http_500", false, "processing send_retried http_500 in 7"),
        ("http_501", false, "failure rejected http_501"),
        ("http_501", true, "failure outcome_unknown outcome_unknown"),
        ("http_505", false, "failure rejected http_505"),
        ("connect", false, "processing send_retried connect in 7"),
        ("connection_lost", false, "failure rejected connection_lost"),
        ("theirs", false, "processing send_retried theirs in 7"),
        ("mine", false, "failure rejected mine"),
    ] {
        let json = format!(r#"{{"code": "{error}", "message": "so it is", "retryable": true}}"#);
        assert_eq!(after(&database, &json, &format!(", null, array[{left}]")).await, becomes, "{error}");
    }

    // Checks go by the same words.
    database
        .execute(
            "update tidegate.policy set retry_on = '{5xx,!501}' where kind = 'public_decrypt' and stage = 'readiness'",
        )
        .await;
    for (code, status) in [("http_500", "queued"), ("http_501", "failure")] {
        let id = database.submit("public_decrypt").await;
        let mut session = Session::open(&database).await;
        let held = session.claim("readiness", 1).await;
        let error = format!(r#"null, array['{{"code": "{code}"}}'::jsonb]"#);
        session.execute(&settle("settle_snooze", &held, &error)).await;
        assert_eq!(database.status(id).await, status, "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_downstreams_own_wish_is_respected_and_never_outlives_a_deadline() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    // What is left of a deadline is told by the second.
    database.stop_clock().await;
    database.execute("update tidegate.policy set base_ms = 7000, factor = 1, jitter_ms = 0").await;
    let busy = r#"{"code": "http_503", "message": "busy"}"#;
    for (wish, becomes) in [
        ("null::interval", "processing send_retried http_503 in 7"),
        ("'33 s'::interval", "processing send_retried http_503 in 33"),
        // Not more often than the policy says.
        ("'0 s'::interval", "processing send_retried http_503 in 7"),
        ("'-5 s'::interval", "processing send_retried http_503 in 7"),
        // The stage has 120 seconds, from its first attempt on, and leaves one as its margin: so that one more attempt
        // fits, with time for a search and a send.
        ("'98 s'::interval", "processing send_retried http_503 in 98"),
        ("'118 s'::interval", "processing send_retried http_503 in 99"),
        ("'100000 days'::interval", "processing send_retried http_503 in 99"),
    ] {
        assert_eq!(after(&database, busy, &format!(", array[{wish}]")).await, becomes, "{wish}");
    }
    database.execute("update tidegate.policy set deadline_ms = 2000000 where stage = 'tx'").await;
    assert_eq!(after(&database, busy, ", array['1000 s'::interval]").await, "processing send_retried http_503 in 1000");
    database.execute("update tidegate.policy set respect_retry_after = false where stage = 'tx'").await;
    assert_eq!(after(&database, busy, ", array['33 s'::interval]").await, "processing send_retried http_503 in 7");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_certainly_did_not_leave_uses_no_attempt() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    submit_many(&database, "direct", 1).await;
    let mut session = Session::open(&database).await;
    let refused =
        |left: bool| format!(r#"array['{{"code": "connect"}}'::jsonb], array['0 s'::interval], array[{left}]"#);
    for attempt in 1..=30 {
        let held = session.claim("tx", 1).await;
        assert_eq!((held[0].attempt, held[0].attempts_max), (attempt, 4 + attempt));
        session.execute(&settle("settle_retry", &held, &refused(false))).await;
        session.execute(DUE).await;
    }
    // Those that may have left do, and their number is the policy's.
    for _ in 0..5 {
        let held = session.claim("tx", 1).await;
        assert_eq!(held[0].attempts_max, 35);
        session.execute(&settle("settle_retry", &held, &refused(true))).await;
        session.execute(DUE).await;
    }
    let ended = database
        .column("select req_status || ' ' || cause || ' ' || tx_attempt || ' ' || tx_unsent from tidegate.request")
        .await;
    assert_eq!(ended, ["failure attempts_exhausted 35 30"]);

    // Until the deadline allows none.
    let late = "now() - interval '119 s'";
    submit_many(&database, "direct", 1).await;
    let held = session.claim("tx", 1).await;
    database
        .execute(&format!(
            "update tidegate.request set deadline_at = {late} + interval '120 s' where id = '{}'",
            held[0].id
        ))
        .await;
    session.execute(&settle("settle_retry", &held, &refused(false))).await;
    assert_eq!(database.causes(held[0].id).await.last().map(String::as_str), Some("deadline_exceeded"));
    assert_eq!(database.violations().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn not_yet_is_waiting_and_a_failed_check_is_an_attempt() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    database.execute("update tidegate.policy set attempts = 3 where stage = 'readiness'").await;
    submit_many(&database, "public_decrypt", 1).await;
    let mut session = Session::open(&database).await;
    let mut check = async |error: &str| {
        let held = session.claim("readiness", 1).await;
        let outcome = format!("array['0 s'::interval], array[{error}]::jsonb[]");
        session.execute(&settle("settle_snooze", &held, &outcome)).await;
        session.execute(DUE).await;
        database.status(held[0].id).await
    };
    for _ in 0..60 {
        assert_eq!(check("null").await, "queued");
    }
    // Whatever heals or is congested.
    database
        .execute("select tidegate_internal.policy_activate('public_decrypt', 'readiness', 8, true, 'congestion', null, clock_timestamp())")
        .await;
    for _ in 0..60 {
        assert_eq!(check("null").await, "queued");
    }
    let failed = r#"'{"code": "http_503", "message": "away"}'"#;
    assert_eq!(check(failed).await, "queued");
    assert_eq!(check(failed).await, "queued");
    assert_eq!(check("null").await, "queued");
    assert_eq!(check(failed).await, "timed_out");
    let ended = database
        .column(
            "select readiness_attempt || ' ' || readiness_waits || ' ' || (error ->> 'message') from tidegate.request",
        )
        .await;
    assert_eq!(ended, ["124 121 not ready after 124 checks; the last: away"]);
    assert_eq!(database.violations().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_checks_have_the_time_of_their_policy_and_waiting_ones_that_of_the_kind() {
    let database = TestDatabase::unlimited().await.with_short_policies().await;
    let failed = r#"null, array['{"code": "http_503"}'::jsonb]"#;
    for (since, answer, becomes) in [
        ("0 s", failed, "queued"),
        // Ten minutes less the margin of a second, and a backoff.
        ("598.9 s", failed, "timed_out"),
        ("598.9 s", "null", "queued"),
        ("0 s", "array['899 s'::interval]", "queued"),
    ] {
        submit_many(&database, "public_decrypt", 1).await;
        let mut session = Session::open(&database).await;
        let held = session.claim("readiness", 1).await;
        database
            .execute(&format!(
                "update tidegate.request set checks_failing_since = clock_timestamp() - interval '{since}' where id = '{}'",
                held[0].id
            ))
            .await;
        session.execute(&settle("settle_snooze", &held, answer)).await;
        assert_eq!(database.status(held[0].id).await, becomes, "{since} {answer}");
        let failing =
            format!("select checks_failing_since is not null from tidegate.request where id = '{}'", held[0].id);
        let failing = database.value(&failing).await == "t";
        assert_eq!(failing, answer == failed, "{since} {answer}");
    }
}
