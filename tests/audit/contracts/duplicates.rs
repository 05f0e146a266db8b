//! Does `contract_check` find keys that are lost, duplicates that come too late, and effects that come twice?

use serde_json::json;

use super::{check, judge, submit_keyed};
use crate::support::{TestDatabase, sql::leases};

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
