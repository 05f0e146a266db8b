//! Is a policy refused that its deadline, its semantics or the latency target of its kind does not allow?

use serde_json::json;

use crate::{
    cli::commands::{err, run},
    http::Api,
    support::TestDatabase,
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
