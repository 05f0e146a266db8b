//! Does `contract_check` see what is there, and say with figures what does not hold?

mod duplicates;
mod measured;

use serde_json::{Value, json};

use crate::support::TestDatabase;

/// What a contract finds: kind, stage, type, whether it holds, observed, bound, detail.
async fn check(database: &TestDatabase, contract: &Value) -> Vec<String> {
    database
        .column(&format!(
            "select format('%s %s %s: %s | %s | %s', kind, stage, type, case when holds then 'holds' else 'NO' end, observed, bound)
             from tidegate.contract_check('{contract}')"
        ))
        .await
}

/// The only row of a contract of one assertion about the sends of `direct`, and its detail.
async fn judge(database: &TestDatabase, mut assertion: Value) -> (String, String) {
    assertion["kind"] = "direct".into();
    assertion["stage"] = "tx".into();
    let contract = json!([assertion]);
    let rows = check(database, &contract).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    let detail =
        database.value(&format!("select coalesce(detail, '') from tidegate.contract_check('{contract}')")).await;
    let row = rows[0].split_once(": ").unwrap().1.to_owned();
    (row, detail)
}

/// Notes calls of `direct`, as a settle would.
async fn calls(database: &TestDatabase, requests: i32, calls: i32, failures: i32, timeouts: i32) {
    let retries = calls - requests;
    database
        .execute(&format!(
            "insert into tidegate.call_sample
               (kind, stage, at, requests, calls, failures, timeouts, retries, slow, hedges, latency_ms)
             values ('direct', 'tx', clock_timestamp(), {requests}, {calls}, {failures}, {timeouts}, {retries}, 0, 0, '{{}}')"
        ))
        .await;
}

async fn submit_keyed(database: &TestDatabase, key: &str, payload: &str) -> String {
    database.value(&format!("select id from tidegate.submit('direct', '{payload}', idempotency_key => '{key}')")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_of_the_example_holds_on_the_shipped_defaults_and_after_traffic() {
    let database = TestDatabase::unlimited().await;
    let contract: Value = serde_json::from_str(include_str!("example_contract.json")).unwrap();

    let rows = check(&database, &contract).await;
    assert!(rows.len() > 30, "{rows:?}");
    assert!(rows.iter().all(|row| row.contains(": holds | ")), "{rows:#?}");

    for kind in ["public_decrypt", "input_proof", "direct"] {
        for status in ["completed", "failure", "processing"] {
            database.request_in(kind, status).await;
            database
                .execute(
                    "select tidegate.cancel(id) from tidegate.request where req_status in ('queued', 'processing')",
                )
                .await;
        }
    }
    submit_keyed(&database, "once", r#"{"a": 1.0}"#).await;
    let rows = check(&database, &contract).await;
    assert!(rows.iter().all(|row| row.contains(": holds | ")), "{rows:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assertion_without_kind_or_stage_is_about_every_one_it_makes_sense_for() {
    let database = TestDatabase::new().await;
    let count = async |assertion: Value| check(&database, &json!([assertion])).await.len();

    let bound = json!({"type": "timeout_upper_bound", "W_retry_le": "10 minutes"});
    assert_eq!(count(bound.clone()).await, 6);
    let mut of_readiness = bound;
    of_readiness["stage"] = "readiness".into();
    assert_eq!(count(of_readiness).await, 2);
    assert_eq!(count(json!({"type": "dedup_window", "span_reorder_le": "1 day"})).await, 4);
    assert_eq!(count(json!({"type": "idempotency", "key_stability": true, "window": 86_400_000})).await, 8);
    assert_eq!(count(json!({"type": "sli", "timeout_rate_le": 0.005, "dup_drop_rate_le": 0.01})).await, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bound_of_a_retried_call_is_that_of_its_policy_and_of_what_is_in_force() {
    let database = TestDatabase::new().await.with_short_policies().await;
    let bound = |ms| json!({"type": "timeout_upper_bound", "W_retry_le": ms});

    let (row, detail) = judge(&database, bound(json!(58_500))).await;
    assert_eq!(row, "holds | 58500 ms | W_retry_le 58500 ms");
    assert_eq!(detail, "5 · 10000 + (750 + 1250 + 2250 + 4250) = 58500 ms");
    let (row, _) = judge(&database, bound(json!("58.499 seconds"))).await;
    assert_eq!(row, "NO | 58500 ms | W_retry_le 58499 ms");

    // Whatever is in force is held against the bound as well.
    database.execute("update tidegate.policy_in_force set timeout_ms = 20000 where kind = 'direct'").await;
    let (row, detail) = judge(&database, bound(json!(60_000))).await;
    assert_eq!(row, "NO | 58500 ms | W_retry_le 60000 ms");
    assert!(detail.ends_with("in force (version 2): 108500 ms"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn semantics_are_those_of_the_policy_and_do_not_contradict_it() {
    let database = TestDatabase::new().await;
    let semantics = |sem: &str| json!({"type": "semantics", "sem": sem});

    let (row, _) = judge(&database, semantics("at_least_once")).await;
    assert_eq!(row, "holds | at_least_once | sem at_least_once");
    let (row, _) = judge(&database, semantics("exactly_once")).await;
    assert_eq!(row, "NO | at_least_once | sem exactly_once");

    // Past the trigger that would refuse it.
    database.past_triggers("update tidegate.policy set attempts = 100 where kind = 'direct'").await;
    let (row, detail) = judge(&database, semantics("at_least_once")).await;
    assert_eq!(row, "NO | at_least_once | sem at_least_once");
    assert!(detail.starts_with("W_retry ≤ deadline − margin does not hold"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_assertion_is_named_with_its_place_and_the_allowed_values() {
    let database = TestDatabase::new().await;
    let good = json!({"type": "dedup_window", "span_reorder_le": "1 hour"});
    for (bad, said) in [
        (json!("x"), "it is not an object"),
        (
            json!({}),
            "\"type\" is missing; a type is one of timeout_upper_bound, retry_success_prob, idempotency, dedup_window, semantics, sli",
        ),
        (json!({"type": 1}), "there is no type \"1\""),
        (json!({"type": "uptime"}), "there is no type \"uptime\"; a type is one of"),
        (
            json!({"type": "sli", "uptime": 1}),
            "there is no \"uptime\" in sli; it has type, kind, stage, timeout_rate_le",
        ),
        (json!({"type": "sli"}), "sli needs at least one of timeout_rate_le"),
        (
            json!({"type": "sli", "p99_ms_le": "2 s"}),
            "\"p99_ms_le\" is a number of milliseconds, or \"slo_p99_ms\" for the target of the kind, not \"2 s\"",
        ),
        (json!({"type": "sli", "p99_ms_le": -1}), "\"p99_ms_le\" is a number of milliseconds"),
        (json!({"type": "idempotency", "kind": "direct"}), "idempotency needs at least one of key_stability, window"),
        (json!({"type": "semantics", "no_side_effect_dup": true}), "semantics needs \"sem\""),
        (
            json!({"type": "semantics", "sem": "twice"}),
            "\"sem\" is \"at_most_once\", \"at_least_once\" or \"exactly_once\", not \"twice\"",
        ),
        (
            json!({"type": "timeout_upper_bound", "W_retry_le": "5"}),
            "\"W_retry_le\" is a number of milliseconds or a text such as",
        ),
        (json!({"type": "timeout_upper_bound", "W_retry_le": "soon"}), "\"W_retry_le\" is a number of milliseconds"),
        (json!({"type": "timeout_upper_bound", "W_retry_le": -1}), "\"W_retry_le\" is a number of milliseconds"),
        (json!({"type": "timeout_upper_bound", "W_retry_le": 1e300}), "\"W_retry_le\" is a number of milliseconds"),
        (json!({"type": "timeout_upper_bound", "W_retry_le": null}), "\"W_retry_le\" is a number of milliseconds"),
        (json!({"type": "retry_success_prob", "p_ok_ge": 1.1}), "\"p_ok_ge\" is a number from 0 to 1, not 1.1"),
        (json!({"type": "retry_success_prob", "p_ok_ge": "1"}), "\"p_ok_ge\" is a number from 0 to 1"),
        (json!({"type": "idempotency", "key_stability": false}), "\"key_stability\" is true, or left out, not false"),
        (json!({"type": "sli", "retry_rate_le": -0.1}), "\"retry_rate_le\" is a number, 0 or more"),
        (
            json!({"type": "sli", "retry_rate_le": {"baseline_times": -1}}),
            "\"retry_rate_le\" is relative as {\"baseline_times\": 1.2",
        ),
        (json!({"type": "sli", "retry_rate_le": {"plus": 1}}), "\"retry_rate_le\" is relative as"),
        (
            json!({"type": "sli", "retry_rate_le": {"baseline_times": 1, "plus": null}}),
            "\"retry_rate_le\" is relative as",
        ),
        (
            json!({"type": "sli", "retry_rate_le": {"baseline_times": 1, "minus": 1}}),
            "\"retry_rate_le\" is relative as",
        ),
        (json!({"type": "retry_success_prob", "p_ok_ge": {"baseline_times": 1001}}), "\"p_ok_ge\" is relative as"),
        (json!({"type": "sli", "retry_rate_le": 1, "kind": 1}), "\"kind\" is the name of a kind"),
        (json!({"type": "sli", "retry_rate_le": 1, "kind": "nope"}), "there is no kind \"nope\""),
        (
            json!({"type": "sli", "retry_rate_le": 1, "stage": "both"}),
            "\"stage\" is \"readiness\" or \"tx\", not \"both\"",
        ),
        (
            json!({"type": "sli", "retry_rate_le": 1, "kind": "direct", "stage": "readiness"}),
            "kind \"direct\" has no readiness stage",
        ),
        (
            json!({"type": "sli", "dup_drop_rate_le": 1, "stage": "readiness"}),
            "\"dup_drop_rate_le\" is about stage tx, not readiness",
        ),
    ] {
        let contract = json!([good, bad]);
        let refused = database.refused(&format!("select * from tidegate.contract_check('{contract}')")).await;
        assert_eq!(refused.code, "TG007", "{bad}: {refused:?}");
        let message = refused.message;
        assert!(message.starts_with("assertion 2: "), "{message}");
        assert!(message.contains(said), "{bad}: {message}");
    }
    for nothing in ["{}", "[]", "null", "1"] {
        let refused = database.refused(&format!("select * from tidegate.contract_check('{nothing}')")).await;
        assert!(refused.message.contains("JSON array with at least one assertion"), "{refused:?}");
    }
    assert_eq!(database.refused("select * from tidegate.contract_check(null)").await.code, "TG007");
}
