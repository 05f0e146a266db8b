//! Policies: their budgets, which failures are retried and when, versions, backoffs that lengthen by themselves.

use serde_json::json;

use crate::{
    cli::commands::{err, run},
    http::Api,
    support::{
        TestDatabase,
        race::{Session, settle, submit_many},
    },
};

/// The words that a refusal of `attempts = 20` says, wherever it comes from.
const INEQUALITY: &str = "W_retry ≤ deadline − margin does not hold: attempts · timeout + Σ min(cap, base · factor^k + jitter) = \
     20 · 10000 + (750 + 1250 + 2250 + 4250 + 8250 + 16250 + … 19 waits in all) = 623000 ms > 120000 − 1000 = 119000 ms";

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_over_its_budget_is_refused_with_the_inequality_by_every_door() {
    let database = TestDatabase::new().await.with_short_policies().await;

    let refusal = database.refused("update tidegate.policy set attempts = 20 where kind = 'direct'").await;
    assert_eq!(refusal.code, "TG013");
    assert!(refusal.message.contains(INEQUALITY), "{}", refusal.message);

    let refusal = database.refused("select tidegate.config_set('direct.tx.attempts', '20')").await;
    assert_eq!(refusal.code, "TG013");
    assert!(refusal.message.contains(INEQUALITY), "{}", refusal.message);

    let ran = run(&database.url, &["config", "set", "direct.tx.attempts", "20"]).await;
    assert!(!ran.status.success());
    assert!(err(&ran).contains(INEQUALITY), "{}", err(&ran));

    let api = Api::of(&database).await;
    let refused = api.patch("/v1/admin/config", &json!({"direct.tx.attempts": 20})).await;
    refused.assert_problem(422, "policy_refused");
    assert!(refused.body["detail"].as_str().unwrap().contains(INEQUALITY));

    // Values that fit together may change together, and a refused change has changed no value.
    assert_eq!(database.value("select attempts from tidegate.policy where kind = 'direct'").await, "5");
    database
        .execute(
            "select from tidegate.config_set_many('{\"direct.tx.attempts\": 20, \"direct.tx.timeout_ms\": 1000,
               \"direct.tx.cap_ms\": 1000}')",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_budget_is_exact_at_its_edge() {
    let database = TestDatabase::new().await;
    // 3 · 1000 + (600 + 1100) = 4700.
    let set = "update tidegate.policy set attempts = 3, timeout_ms = 1000, base_ms = 500, factor = 2, jitter_ms = 100, \
               cap_ms = 5000, margin_ms = 300, deadline_ms =";
    database.execute(&format!("{set} 5000 where kind = 'direct'")).await;
    let refusal = database.refused(&format!("{set} 4999 where kind = 'direct'")).await;
    let figures =
        "3 · 1000 + (600 + 1100) = 4700 ms > 4999 − 300 = 4699 ms; what fits: attempts ≤ 2, or deadline_ms ≥ 5000";
    assert!(refusal.message.contains(figures), "{}", refusal.message);
    // Not one attempt.
    let refusal = database.refused(&format!("{set} 1299 where kind = 'direct'")).await;
    let fits = "= 999 ms; what fits: deadline_ms ≥ 5000";
    assert!(refusal.message.contains(fits), "{}", refusal.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn w_retry_is_the_sum_that_its_definition_says() {
    let database = TestDatabase::new().await;
    let wrong = database
        .column(
            "select row(a, t, b, f, c, j, w, s)::text
             from (
               select a, t, b, f, c, j, tidegate.w_retry_ms(a, t, b, f, c, j) as w,
                 a::numeric * t + coalesce((
                   select sum(least(c::numeric, b * power(f, k::numeric) + j)) from generate_series(0, a - 2) as k), 0) as s
               from (
                 select
                   1 + (random() * 30)::integer as a, (random() * 10000)::integer as t,
                   (random() * least(i, 1) * 1000)::integer as b,
                   round((1 + random() * (i % 4))::numeric, 2) as f, 1000 + (random() * 60000)::integer as c,
                   (random() * 2000)::integer as j
                 from generate_series(0, 2000) as i
               ) as drawn
             ) as reckoned
             where abs(w - s) > 0.000001",
        )
        .await;
    assert_eq!(wrong, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kinds_deadline_holds_its_stages_one_after_the_other() {
    let database = TestDatabase::new().await.with_short_policies().await;
    let refusal = database
        .refused("update tidegate.kind set deadline = '595 seconds', readiness_timeout = '1 s' where name = 'public_decrypt'")
        .await;
    assert_eq!(refusal.code, "TG013");
    assert!(
        refusal.message.contains("536628.90625 (readiness) + 58500 (tx) = 595128.90625 > 595000 ms"),
        "{}",
        refusal.message
    );
    database
        .execute("update tidegate.kind set deadline = '596 seconds', readiness_timeout = '1 s' where name = 'public_decrypt'")
        .await;
    // In one transaction both may change, in either order.
    database
        .execute(
            "begin;
             update tidegate.kind set deadline = '90 seconds', readiness_timeout = '1 s' where name = 'user_decrypt';
             update tidegate.policy set attempts = 3, timeout_ms = 1000, cap_ms = 1000 where kind = 'user_decrypt';
             commit",
        )
        .await;
    let refusal = database.refused("select tidegate.config_set('user_decrypt.deadline', '4')").await;
    assert_eq!(refusal.code, "TG013");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_with_a_short_deadline_comes_with_policies_that_fit() {
    let database = TestDatabase::new().await;
    for deadline in ["10 milliseconds", "1 second", "59 seconds", "9 minutes", "11 minutes"] {
        database
            .execute(&format!(
                "insert into tidegate.kind (name, flow, readiness_queue, tx_queue, deadline, readiness_timeout)
                 values ('short', 'decrypt', 'readiness', 'tx', '{deadline}', '{deadline}');
                 delete from tidegate.kind where name = 'short'"
            ))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_may_take_longer_than_the_latency_target_of_its_kind() {
    let database = TestDatabase::new().await;
    let target = "timeout_ms ≤ slo_p99_ms of the kind does not hold: 10000 (tx) > 9999 ms";
    for change in [
        "update tidegate.kind set slo_p99_ms = 9999 where name = 'direct'",
        "select tidegate.config_set('direct.slo_p99_ms', '9999')",
    ] {
        let refusal = database.refused(change).await;
        assert_eq!(refusal.code, "TG013", "{change}");
        assert!(refusal.message.contains(target), "{}", refusal.message);
    }
    let ran = run(&database.url, &["config", "set", "direct.slo_p99_ms", "9999"]).await;
    assert!(err(&ran).contains(target), "{}", err(&ran));
    let api = Api::of(&database).await;
    let refused = api.patch("/v1/admin/config", &json!({"direct.slo_p99_ms": 9999})).await;
    refused.assert_problem(422, "policy_refused");
    assert!(refused.detail().contains(target), "{refused:?}");

    // Each stage counts.
    let refusal = database.refused("update tidegate.kind set slo_p99_ms = 4999 where name = 'public_decrypt'").await;
    let both = "5000 (readiness), 10000 (tx) > 4999 ms";
    assert!(refusal.message.contains(both), "{}", refusal.message);

    // A timeout at the target is within it; then none may be set above it, and both may change together.
    database.execute("update tidegate.kind set slo_p99_ms = 10000 where name = 'direct'").await;
    let longer = "update tidegate.policy set timeout_ms = 10001 where kind = 'direct'";
    let refusal = database.refused(longer).await;
    assert_eq!(refusal.code, "TG013");
    assert!(refusal.message.contains("10001 (tx) > 10000 ms"), "{}", refusal.message);
    database
        .execute("select tidegate.config_set_many('{\"direct.slo_p99_ms\": 2000, \"direct.tx.timeout_ms\": 2000}')")
        .await;
    database.execute(&format!("select tidegate.config_set('direct.slo_p99_ms', 'none'); {longer}")).await;

    // A kind that comes with a target comes with policies that fit.
    for target in [1, 300, 7000] {
        database
            .execute(&format!(
                "insert into tidegate.kind (name, flow, readiness_queue, tx_queue, slo_p99_ms)
                 values ('quick', 'decrypt', 'readiness', 'tx', {target})"
            ))
            .await;
        let timeouts =
            "select string_agg(timeout_ms::text, ' ' order by stage) from tidegate.policy where kind = 'quick'";
        let expected = format!("{} {}", 5000.min(target), 10000.min(target));
        assert_eq!(database.value(timeouts).await, expected);
        database.execute("delete from tidegate.kind where name = 'quick'").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_against_its_semantics_is_refused() {
    let database = TestDatabase::new().await;
    for (change, words) in [
        ("semantics = 'at_most_once', hedge_safe = true, hedge_max = 1", "at_most_once"),
        ("retry_on = '{5xx,timeouts}'", "timeouts, which is close to a class"),
        ("retry_on = '{5xx,unauthorised}'", "throttled, unauthorized, 5xx and other"),
        ("retry_on = '{connections}'", "the classes are timeout, connect"),
        ("retry_on = '{5xx,404}'", "404"),
        ("retry_on = '{4xx}'", "4xx"),
        ("retry_on = '{http_422}'", "http_422"),
        ("retry_on = '{timeout,!501}'", "!501"),
        ("retry_on = '{!501}'", "!501"),
        ("retry_on = '{5xx,501,!501}'", "!501"),
        ("retry_on = '{5xx,!404}'", "!404"),
        ("retry_on = '{timeout,!5xx,other}'", "!5xx"),
        ("retry_on = '{connect,!connect}'", "!connect"),
        ("retry_on = '{5xx,!mine}'", "!mine"),
        ("retry_on = '{other,!}'", "!,"),
    ] {
        let refusal = database.refused(&format!("update tidegate.policy set {change} where kind = 'direct'")).await;
        assert_eq!(refusal.code, "TG013", "{change}");
        assert!(refusal.message.contains(words), "{}", refusal.message);
    }
    // A 429 is no refusal: it is retried.
    database.execute("update tidegate.policy set retry_on = '{429,connect}' where kind = 'direct'").await;
}

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

/// What waits for its next attempt is due.
const DUE: &str = "update pgmq.q_tx set vt = now() where vt > now();
                   update pgmq.q_readiness set vt = now() where vt > now()";

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
