//! Do several settings change together, all of them or none, and is a change on record only once it commits?

use serde_json::json;

use super::SNAPSHOT;
use crate::support::{TestDatabase, race::Session};

#[tokio::test(flavor = "multi_thread")]
async fn several_settings_only_have_to_make_sense_together() {
    let database = TestDatabase::new().await;
    database.execute("update tidegate.policy set attempts = 2").await;
    let refusal = database.refused("select tidegate.config_set('min_seconds', '400')").await;
    assert_eq!(refusal.constraint, "setting_min_is_at_most_max_seconds");

    for changes in [
        json!({"min_seconds": 400, "max_seconds": 500}),
        json!({"max_seconds": 20, "min_seconds": 10}),
        json!({"tx.high_water": 10, "tx.low_water": 5}),
        json!({"tx.low_water": 5000, "tx.high_water": 9000}),
        json!({"direct.tx.base_ms": 35_000, "direct.tx.cap_ms": 40_000}),
        json!({"direct.deadline": "5 minutes", "direct.readiness_timeout": "1 minute"}),
    ] {
        let call = format!("select count(*) from tidegate.config_set_many('{changes}')");
        assert_eq!(database.value(&call).await, "2", "{changes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kinds_keys_and_their_paths_change_together_and_go_together() {
    let database = TestDatabase::new().await;
    for (changes, count) in [
        (json!({"direct.key_mode": "natural", "direct.key_paths": "order.id, op"}), 2),
        (json!({"direct.key_paths": ["op", "order.id"]}), 1),
        (json!({"direct.key_mode": "proxy", "direct.key_paths": "none", "direct.key_bucket": "1 hour"}), 3),
        (json!({"direct.key_mode": "natural", "direct.key_bucket": null, "direct.key_paths": ["op"]}), 3),
        (json!({"direct.key_mode": "caller", "direct.key_paths": []}), 2),
        (json!({"direct.key_paths": null}), 1),
    ] {
        let call = format!("select count(*) from tidegate.config_set_many('{changes}')");
        assert_eq!(database.number(&call).await, count, "{changes}");
    }
    let refusal = database.refused("select tidegate.config_set('direct.key_mode', 'natural')").await;
    assert_eq!(refusal.constraint, "kind_has_key_paths_iff_its_keys_are_natural");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_settings_all_change_or_none() {
    let database = TestDatabase::new().await;
    let before = database.value(SNAPSHOT).await;
    let bad = [
        (json!({"tx.per_seconds": -1}), "TG007"),
        (json!({"zzz": 1}), "TG010"),
        (json!({"aaa": 1}), "TG010"),
        (json!({"direct.tx_queue": "nowhere"}), "TG007"),
        (json!({"response_backoff": "0s=0"}), "TG007"),
        (json!({"tx_confirmation_ms": 7, "direct.tx_confirmation_ms": 8}), "TG007"),
        (json!({"direct_processing_seconds": 7, "direct.processing_seconds": 8}), "TG007"),
        (json!({"tx.burst": {"a": 1}}), "TG007"),
        (json!({"tx.burst": [1]}), "TG007"),
        (json!({"tx.burst": true}), "TG007"),
        (json!({"tx.paused": 1}), "TG007"),
        (json!({"direct.eta": 1}), "TG007"),
    ];
    for (wrong, code) in bad {
        let mut changes = json!({
            "min_seconds": 2, "tx.high_water": 900, "tx.low_water": 800, "direct.retention": null, "direct.tx.attempts": 7,
            "input_proof_processing_seconds": 1
        });
        changes.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        let refusal = database.refused(&format!("select tidegate.config_set_many('{changes}')")).await;
        assert_eq!(refusal.code, code, "{wrong}: {refusal:?}");
        assert_eq!(database.value(SNAPSHOT).await, before, "{wrong}");
    }
    for changes in ["null", "'[]'", "'1'", "'\"tx.burst\"'"] {
        let refusal = database.refused(&format!("select tidegate.config_set_many({changes})")).await;
        assert_eq!(refusal.code, "TG007", "{changes}");
    }
    assert_eq!(database.column("select * from tidegate.config_set_many('{}')").await, [""; 0]);
    // What was refused left no trace in the history either.
    assert_eq!(database.number("select count(*) from tidegate.config_change where column_name = 'attempts'").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_rolled_back_is_no_change_and_not_on_record() {
    let database = TestDatabase::new().await;
    let before = database.number("select count(*) from tidegate.config_change").await;
    let mut session = Session::begin(&database).await;
    session.texts("select * from tidegate.config_set('tx.per_seconds', '77', 'ann')").await;
    session.rollback().await;

    assert_eq!(database.number("select count(*) from tidegate.config_change").await, before);
    assert_eq!(database.text("select per_seconds from tidegate.queue where name = 'tx'").await.as_deref(), Some("10"));
}
