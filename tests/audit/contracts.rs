//! Does `contract_check` see what is there, and say with figures what does not hold?

use serde_json::{Value, json};

use crate::support::{TestDatabase, sql::leases};

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
async fn the_chance_of_success_is_that_of_the_measured_drops() {
    let database = TestDatabase::new().await.with_short_policies().await;
    let target = json!({"type": "retry_success_prob", "p_ok_ge": 0.97});

    let (row, detail) = judge(&database, target.clone()).await;
    assert_eq!(row, "holds | p_ok 1 | p_ok_ge 0.97");
    assert!(detail.contains("judged by no drops"), "{detail}");

    calls(&database, 10, 20, 10, 0).await;
    let (row, detail) = judge(&database, target).await;
    assert_eq!(row, "NO | p_ok 0.96875 | p_ok_ge 0.97");
    assert!(detail.contains("10 / 20 calls = 0.5"), "{detail}");
    assert!(detail.contains("p_drop^5"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_stable_while_stored_payloads_have_their_fingerprint() {
    let database = TestDatabase::new().await;
    let stable = json!({"type": "idempotency", "key_stability": true});
    let id = submit_keyed(&database, "one", r#"{"b": 1.50, "a": [1e1, 2]}"#).await;
    submit_keyed(&database, "two", "[]").await;
    database.execute("select tidegate.submit_batch_once('direct', array['1', '2']::jsonb[], 'batch')").await;

    let (row, _) = judge(&database, stable.clone()).await;
    assert_eq!(row, "holds | 4 of 4 keys | key_stability");
    // The same payload in another form.
    let rewrite = async |payload: &str| {
        database.execute(&format!("update tidegate.request set payload = '{payload}' where id = '{id}'")).await;
    };
    rewrite(r#"{"a": [10.0, 2], "b": 1.5}"#).await;
    let (row, _) = judge(&database, stable.clone()).await;
    assert_eq!(row, "holds | 4 of 4 keys | key_stability");

    rewrite(r#"{"a": [2, 10], "b": 1.5}"#).await;
    let (row, detail) = judge(&database, stable.clone()).await;
    assert_eq!(row, "NO | 3 of 4 keys | key_stability");
    assert!(detail.contains(&id), "{detail}");

    // As a set it is the payload that was stored.
    database.execute("update tidegate.kind set set_paths = '{a}' where name = 'direct'").await;
    let (row, _) = judge(&database, stable).await;
    assert_eq!(row, "holds | 4 of 4 keys | key_stability");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_window_is_exactly_the_policys() {
    let database = TestDatabase::new().await;
    for (window, row) in [
        (json!("24 hours"), "holds | dedup_window 24:00:00 | window 24:00:00"),
        (json!(86_400_000), "holds | dedup_window 24:00:00 | window 24:00:00"),
        (json!("1 day"), "holds | dedup_window 24:00:00 | window 1 day"),
        (json!(3_600_000), "NO | dedup_window 24:00:00 | window 01:00:00"),
        (json!("25 hours"), "NO | dedup_window 24:00:00 | window 25:00:00"),
    ] {
        let judged = judge(&database, json!({"type": "idempotency", "window": window})).await;
        assert_eq!(judged.0, row);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicates_that_come_late_are_within_the_bound_and_the_bound_within_the_window() {
    let database = TestDatabase::new().await;
    let within = |bound: &str| json!({"type": "dedup_window", "span_reorder_le": bound});
    let seen = "span_reorder 01:00:00, dedup_window 24:00:00";
    for (bound, verdict, why) in [
        ("1 hour", "holds", "0 stored keys"),
        ("24 hours", "holds", "0 stored keys"),
        ("59 minutes", "NO", "expects duplicates later"),
        ("25 hours", "NO", "window is shorter"),
    ] {
        let (row, detail) = judge(&database, within(bound)).await;
        assert!(row.starts_with(&format!("{verdict} | {seen} | ")), "{row}");
        assert!(detail.contains(why), "{detail}");
    }

    // A key that was stored when the window was shorter.
    database.execute("update tidegate.policy set dedup_window = '2 hours' where kind = 'direct'").await;
    submit_keyed(&database, "short", "{}").await;
    database.execute("update tidegate.policy set dedup_window = '24 hours' where kind = 'direct'").await;
    let (row, detail) = judge(&database, within("3 hours")).await;
    assert!(row.starts_with("NO | "), "{row}");
    assert!(detail.contains("1 keys are kept for less, one for 02:00:00 only"), "{detail}");
    let (row, _) = judge(&database, within("2 hours")).await;
    assert!(row.starts_with("holds | "), "{row}");
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
    database
        .execute(
            "set session_replication_role = replica;
             update tidegate.policy set attempts = 100 where kind = 'direct';
             set session_replication_role = origin",
        )
        .await;
    let (row, detail) = judge(&database, semantics("at_least_once")).await;
    assert_eq!(row, "NO | at_least_once | sem at_least_once");
    assert!(detail.starts_with("W_retry ≤ deadline − margin does not hold"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_effect_comes_twice_by_the_history_and_the_keys() {
    let database = TestDatabase::unlimited().await;
    let once = |sem: &str| json!({"type": "semantics", "sem": sem, "no_side_effect_dup": true});
    let effects = async |sem: &str| {
        let mut assertion = once(sem);
        assertion["kind"] = "direct".into();
        let rows = check(&database, &json!([assertion])).await;
        rows[1].split_once(": ").unwrap().1.to_owned()
    };
    let done = database.request_in("direct", "completed").await;
    assert_eq!(
        effects("at_least_once").await,
        "holds | yes: 0 completed twice, 0 sent twice, 0 keys sent twice, 0 keys astray | no_side_effect_dup"
    );

    // A key that lives, and its request is gone: a duplicate would be sent.
    let id = submit_keyed(&database, "gone", "{}").await;
    database.execute(&format!("select tidegate.cancel('{id}'); delete from tidegate.request where id = '{id}'")).await;
    assert_eq!(
        effects("at_least_once").await,
        "NO | no: 0 completed twice, 0 sent twice, 0 keys sent twice, 1 keys astray | no_side_effect_dup"
    );
    database.execute("delete from tidegate.dedup").await;

    // Sent again after a send that may have left: fine, until that is what the policy rules out.
    for sem in ["at_least_once", "at_most_once"] {
        database.execute(&format!("update tidegate.policy set semantics = '{sem}' where kind = 'direct'")).await;
        database.submit("direct").await;
        let claims = database.claim_tx(1).await;
        assert_eq!(claims.len(), 1);
        let id = claims[0].id;
        database
            .execute(&format!(
                "update tidegate.request set req_status = 'processing', tx_unsent = tx_attempt where id = '{id}'"
            ))
            .await;
        database.run_out("tx").await;
        assert_eq!(database.claim_tx(1).await[0].id, id);
        let expected = match sem {
            "at_most_once" => "NO | no: 0 completed twice, 1 sent twice, 0 keys sent twice | no_side_effect_dup",
            _ => {
                "holds | unknown: 0 completed twice, 1 sent twice, 0 keys sent twice, 0 keys astray | no_side_effect_dup"
            }
        };
        assert_eq!(effects(sem).await, expected);
        database.execute(&format!("select tidegate.fail_internal(array['{id}']::uuid[])")).await;
    }

    database
        .execute(&format!(
            "insert into tidegate.stored_event
             select request_id, 9, from_status, to_status, at, attempt, cause from tidegate.request_event
             where request_id = '{done}' and to_status = 'completed'"
        ))
        .await;
    assert_eq!(
        effects("at_most_once").await,
        "NO | no: 1 completed twice, 1 sent twice, 0 keys sent twice | no_side_effect_dup"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_request_was_sent_again_as_another_is_counted() {
    let database = TestDatabase::unlimited().await;
    let contract = json!([{
        "type": "semantics", "kind": "direct", "sem": "at_least_once", "no_side_effect_dup": true
    }]);
    submit_keyed(&database, "k", "{}").await;
    for word in ["yes: 0 completed twice, 0 sent twice, 0 keys", "unknown: 0 completed twice, 0 sent twice, 1 keys"] {
        database.claim_tx(1).await;
        let rows = check(&database, &contract).await;
        assert!(rows[1].contains(word), "{rows:?}");
        database
            .execute(
                "select tidegate.fail_internal(array(select id from tidegate.request where req_status = 'tx_in_flight'));
                 select tidegate.redrive(may_repeat => true)",
            )
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_was_given_back_or_had_not_left_is_no_second_one() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy set semantics = 'at_most_once', base_ms = 0, jitter_ms = 0 where kind = 'direct'",
        )
        .await;
    database.submit("direct").await;
    let claims = database.claim_tx(1).await;
    database.execute(&format!("select tidegate_internal.settle_released({})", leases(&claims))).await;
    let claims = database.claim_tx(1).await;
    database
        .execute(&format!(
            r#"select tidegate_internal.settle_retry({}, array['{{"code": "connect"}}']::jsonb[], array[interval '0'], array[false])"#,
            leases(&claims)
        ))
        .await;
    assert_eq!(database.claim_tx(1).await.len(), 1);

    let contract = json!([{
        "type": "semantics", "kind": "direct", "sem": "at_most_once", "no_side_effect_dup": true
    }]);
    let rows = check(&database, &contract).await;
    assert!(rows.iter().all(|row| row.contains(": holds | ")), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn indicators_are_those_of_the_last_five_minutes() {
    let database = TestDatabase::new().await;
    let sli = |member: &str, bound: f64| json!({"type": "sli", member: bound});

    let (row, detail) = judge(&database, sli("timeout_rate_le", 0.0)).await;
    assert_eq!(row, "holds | timeout_rate 0 | timeout_rate_le 0.0");
    assert!(detail.contains("nothing was measured"), "{detail}");

    calls(&database, 100, 125, 10, 5).await;
    database
        .execute(
            "insert into tidegate.submission_sample (kind, submitted, replayed) values ('direct', 200, 3);
             insert into tidegate.submission_sample (kind, at, submitted, replayed)
             values ('direct', clock_timestamp() - interval '6 minutes', 200, 200)",
        )
        .await;
    for (member, seen) in
        [("timeout_rate_le", 0.05), ("retry_rate_le", 0.25), ("error_ratio_le", 0.08), ("dup_drop_rate_le", 0.015)]
    {
        let name = member.strip_suffix("_le").unwrap();
        let (row, _) = judge(&database, sli(member, seen)).await;
        assert_eq!(row, format!("holds | {name} {seen} | {member} {seen}"));
        let below = seen - 0.005;
        let (row, detail) = judge(&database, sli(member, below)).await;
        assert!(row.starts_with(&format!("NO | {name} {seen} | ")), "{row}");
        assert!(detail.contains("in 5 minutes"), "{detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_latency_target_is_compared_with_the_percentile_of_the_last_five_minutes() {
    let database = TestDatabase::new().await;
    let bound = |bound: Value| json!({"type": "sli", "p99_ms_le": bound});
    let (row, detail) = judge(&database, bound("slo_p99_ms".into())).await;
    assert_eq!(row, "holds | p99_ms 0 | p99_ms_le slo_p99_ms = none");
    assert!(detail.contains("no latency target"), "{detail}");
    let (row, detail) = judge(&database, bound(0.into())).await;
    assert_eq!(row, "holds | p99_ms 0 | p99_ms_le 0");
    assert!(detail.contains("nothing was measured"), "{detail}");

    calls(&database, 100, 100, 0, 0).await;
    database.execute("update tidegate.call_sample set latency_ms = array_fill(20, array[98]) || '{900,1000}'").await;
    for (most, holds) in [(900.0, "holds"), (899.5, "NO")] {
        let (row, detail) = judge(&database, bound(most.into())).await;
        assert_eq!(row, format!("{holds} | p99_ms 900 | p99_ms_le {most:?}"));
        assert!(detail.contains("100 calls for 100 requests in 5 minutes"), "{detail}");
    }
    for (target, holds) in [(900, "holds"), (899, "NO")] {
        database
            .execute(&format!(
                "select tidegate.config_set_many('{{\"direct.slo_p99_ms\": {target}, \"direct.tx.timeout_ms\": 500}}')"
            ))
            .await;
        let (row, _) = judge(&database, bound("slo_p99_ms".into())).await;
        assert_eq!(row, format!("{holds} | p99_ms 900 | p99_ms_le slo_p99_ms = {target}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_measured_bound_may_be_relative_and_what_was_not_measured_holds() {
    let database = TestDatabase::new().await;
    let relative = json!({"baseline_times": 1});
    let contract = json!([
        {"type": "timeout_upper_bound", "W_retry_le": relative},
        {"type": "retry_success_prob", "p_ok_ge": relative},
        {"type": "sli", "timeout_rate_le": relative, "retry_rate_le": relative, "error_ratio_le": relative},
        {"type": "sli", "p99_ms_le": relative},
        {"type": "dedup_window", "span_reorder_le": relative},
        {"type": "sli", "dup_drop_rate_le": {"baseline_times": 0, "plus": -1}},
    ]);
    let unmeasured = check(&database, &contract).await;
    let violated: Vec<_> = unmeasured.iter().filter(|row| row.contains(": NO | ")).collect();
    let known = ["W_retry_le", "span_reorder_le"];
    assert!(violated.iter().all(|row| known.iter().any(|member| row.contains(member))), "{violated:#?}");
    assert_eq!(violated.len(), 10, "the policies are always known");

    calls(&database, 10, 30, 20, 7).await;
    database.execute("update tidegate.call_sample set latency_ms = '{900}'").await;
    // It compares with the baseline of before, of which there is none, and stores what it has observed.
    let recording = format!("from tidegate.contract_record('{contract}', actor => 'ann') where not holds");
    assert_eq!(database.number(&format!("select count(*) {recording}")).await, 15);
    assert_eq!(database.number(&format!("select count(*) {recording}")).await, 0);
    // What was recorded is within bounds that are equal to it, to the last digit.
    let recorded = check(&database, &contract).await;
    assert!(recorded.iter().all(|row| row.contains(": holds | ")), "{recorded:#?}");
    let actors = "select string_agg(distinct on_behalf_of, ' ') || ' ' || count(*) from tidegate.contract_baseline";
    assert_eq!(database.value(actors).await, "ann 15");
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
