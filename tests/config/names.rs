//! Can everything be set by its documented name, and does every name show what is set?

mod concurrency;
mod refusals;
mod several;

use serde_json::{Value, json};

use crate::support::{
    TestDatabase,
    sql::{column, refused, run},
};

/// What `config_set` is told, and what its column then holds: SQL that is true.
pub const NAMES: &[(&str, &str, &str)] = &[
    ("min_seconds", "2", "(select min_seconds from tidegate.setting) = 2"),
    ("max_seconds", "600", "(select max_seconds from tidegate.setting) = 600"),
    ("safety_margin", "0.25", "(select safety_margin from tidegate.setting) = 0.25"),
    (
        "response_backoff",
        "0s=5,1 minute=20",
        "(select array_agg((from_elapsed, seconds)::text order by from_elapsed) from tidegate.response_backoff)
           = array['(00:00:00,5)', '(00:01:00,20)']",
    ),
    ("readiness_check_seconds", "1.5", "(select array_agg(readiness_ms) from tidegate.kind) @> array[1500]"),
    ("tx_confirmation_ms", "150", "(select array_agg(distinct tx_confirmation_ms) from tidegate.kind) = array[150]"),
    (
        "input_proof_processing_seconds",
        "3",
        "(select processing_ms from tidegate.kind where name = 'input_proof') = 3000",
    ),
    (
        "user_decrypt_processing_seconds",
        "0.005",
        "(select processing_ms from tidegate.kind where name = 'user_decrypt') = 5",
    ),
    (
        "public_decrypt_processing_seconds",
        "7.25",
        "(select processing_ms from tidegate.kind where name = 'public_decrypt') = 7250",
    ),
    ("direct.processing_seconds", "9", "(select processing_ms from tidegate.kind where name = 'direct') = 9000"),
    ("public_decrypt.eta", "observed", "(select eta from tidegate.kind where name = 'public_decrypt') = 'observed'"),
    (
        "user_decrypt.readiness_timeout",
        "10 minutes",
        "(select readiness_timeout from tidegate.kind where name = 'user_decrypt') = '600 s'",
    ),
    ("direct.deadline", "2h", "(select deadline from tidegate.kind where name = 'direct') = '2 hours'"),
    ("direct.response_timeout", "90", "(select response_timeout from tidegate.kind where name = 'direct') = '90 s'"),
    ("direct.retention", "7 days", "(select retention from tidegate.kind where name = 'direct') = '7 days'"),
    ("direct.slo_p99_ms", "60000", "(select slo_p99_ms from tidegate.kind where name = 'direct') = 60000"),
    ("direct.key_mode", "proxy", "(select key_mode from tidegate.kind where name = 'direct') = 'proxy'"),
    ("direct.key_bucket", "1 hour", "(select key_bucket from tidegate.kind where name = 'direct') = '1 hour'"),
    (
        "direct.set_paths",
        "tags, order.items",
        "(select set_paths from tidegate.kind where name = 'direct') = '{tags,order.items}'",
    ),
    (
        "direct.hidden_paths",
        "card.number,cvc",
        "(select hidden_paths from tidegate.kind where name = 'direct') = '{card.number,cvc}'",
    ),
    ("input_proof.reject_details", "true", "(select reject_details from tidegate.kind where name = 'input_proof')"),
    (
        "public_decrypt.response_threshold",
        "2",
        "(select response_threshold from tidegate.kind where name = 'public_decrypt') = 2",
    ),
    ("direct.tx_queue", "slow", "(select tx_queue from tidegate.kind where name = 'direct') = 'slow'"),
    (
        "public_decrypt.readiness_queue",
        "checks",
        "(select readiness_queue from tidegate.kind where name = 'public_decrypt') = 'checks'",
    ),
    ("tx.per_seconds", "12.5", "(select per_seconds from tidegate.queue where name = 'tx') = 12.5"),
    ("tx.burst", "3", "(select burst from tidegate.queue where name = 'tx') = 3"),
    (
        "readiness.max_concurrency",
        "none",
        "(select max_concurrency is null from tidegate.queue where name = 'readiness')",
    ),
    ("tx.paused", "true", "(select paused from tidegate.queue where name = 'tx')"),
    ("tx.low_water", "100", "(select low_water from tidegate.gate where queue = 'tx') = 100"),
    ("tx.high_water", "500", "(select high_water from tidegate.gate where queue = 'tx') = 500"),
    ("readiness.mode", "soft", "(select mode from tidegate.gate where queue = 'readiness') = 'soft'"),
    ("direct.tx.attempts", "7", "(select attempts from tidegate.policy where kind = 'direct') = 7"),
    ("direct.tx.base_ms", "250", "(select base_ms from tidegate.policy where kind = 'direct') = 250"),
    ("direct.tx.factor", "1.25", "(select factor from tidegate.policy where kind = 'direct') = 1.25"),
    ("direct.tx.cap_ms", "9000", "(select cap_ms from tidegate.policy where kind = 'direct') = 9000"),
    ("direct.tx.jitter_ms", "0", "(select jitter_ms from tidegate.policy where kind = 'direct') = 0"),
    ("direct.tx.timeout_ms", "4000", "(select timeout_ms from tidegate.policy where kind = 'direct') = 4000"),
    ("direct.tx.percentile", "0.95", "(select percentile from tidegate.policy where kind = 'direct') = 0.95"),
    ("direct.tx.safety_factor", "2", "(select safety_factor from tidegate.policy where kind = 'direct') = 2"),
    ("direct.tx.connect_ms", "100", "(select connect_ms from tidegate.policy where kind = 'direct') = 100"),
    ("direct.tx.first_byte_ms", "200", "(select first_byte_ms from tidegate.policy where kind = 'direct') = 200"),
    ("direct.tx.body_ms", "300", "(select body_ms from tidegate.policy where kind = 'direct') = 300"),
    ("direct.tx.timeout_mode", "phased", "(select timeout_mode from tidegate.policy where kind = 'direct') = 'phased'"),
    ("direct.tx.deadline_ms", "60000", "(select deadline_ms from tidegate.policy where kind = 'direct') = 60000"),
    ("direct.tx.margin_ms", "500", "(select margin_ms from tidegate.policy where kind = 'direct') = 500"),
    (
        "direct.tx.retry_on",
        "5xx, reset",
        "(select retry_on from tidegate.policy where kind = 'direct') = '{5xx,reset}'",
    ),
    (
        "direct.tx.respect_retry_after",
        "false",
        "(select not respect_retry_after from tidegate.policy where kind = 'direct')",
    ),
    (
        "direct.tx.semantics",
        "exactly_once",
        "(select semantics from tidegate.policy where kind = 'direct') = 'exactly_once'",
    ),
    ("direct.tx.dedup_window", "2 days", "(select dedup_window from tidegate.policy where kind = 'direct') = '2 days'"),
    (
        "direct.tx.span_reorder",
        "2 hours",
        "(select span_reorder from tidegate.policy where kind = 'direct') = '2 hours'",
    ),
    ("direct.tx.hedge_after_ms", "50", "(select hedge_after_ms from tidegate.policy where kind = 'direct') = 50"),
    ("direct.tx.hedge_safe", "true", "(select hedge_safe from tidegate.policy where kind = 'direct')"),
    ("direct.tx.hedge_max", "1", "(select hedge_max from tidegate.policy where kind = 'direct') = 1"),
    ("direct.tx.hedge_share", "0.1", "(select hedge_share from tidegate.policy where kind = 'direct') = 0.1"),
    (
        "direct.tx.breaker_error_rate",
        "0.5",
        "(select breaker_error_rate from tidegate.policy where kind = 'direct') = 0.5",
    ),
    (
        "direct.tx.breaker_latency_ms",
        "800",
        "(select breaker_latency_ms from tidegate.policy where kind = 'direct') = 800",
    ),
    (
        "direct.tx.breaker_samples_min",
        "10",
        "(select breaker_samples_min from tidegate.policy where kind = 'direct') = 10",
    ),
    (
        "direct.tx.breaker_window_ms",
        "5000",
        "(select breaker_window_ms from tidegate.policy where kind = 'direct') = 5000",
    ),
    ("direct.tx.breaker_open_ms", "2000", "(select breaker_open_ms from tidegate.policy where kind = 'direct') = 2000"),
    ("direct.tx.breaker_probes", "2", "(select breaker_probes from tidegate.policy where kind = 'direct') = 2"),
    ("direct.tx.heal_retry_rate", "0.3", "(select heal_retry_rate from tidegate.policy where kind = 'direct') = 0.3"),
    (
        "direct.tx.heal_timeout_rate",
        "none",
        "(select heal_timeout_rate is null from tidegate.policy where kind = 'direct')",
    ),
    ("direct.tx.stretch_max", "4", "(select stretch_max from tidegate.policy where kind = 'direct') = 4"),
    ("direct.tx.adaptive_min_ms", "5", "(select adaptive_min_ms from tidegate.policy where kind = 'direct') = 5"),
    ("direct.tx.adaptive_slo", "0.05", "(select adaptive_slo from tidegate.policy where kind = 'direct') = 0.05"),
    (
        "direct.tx.adaptive_interval_ms",
        "60000",
        "(select adaptive_interval_ms from tidegate.policy where kind = 'direct') = 60000",
    ),
    ("direct.tx.adaptive_k_margin", "3", "(select adaptive_k_margin from tidegate.policy where kind = 'direct') = 3"),
    (
        "direct.tx.adaptive_alarm_samples",
        "1",
        "(select adaptive_alarm_samples from tidegate.policy where kind = 'direct') = 1",
    ),
    (
        "direct.tx.adaptive_best_case",
        "minimum",
        "(select adaptive_best_case from tidegate.policy where kind = 'direct') = 'minimum'",
    ),
    (
        "direct.tx.adaptive_interval_calls",
        "50",
        "(select adaptive_interval_calls from tidegate.policy where kind = 'direct') = 50",
    ),
    (
        "input_proof.tx.timeout_mode",
        "adaptive",
        "(select timeout_mode from tidegate.policy where kind = 'input_proof') = 'adaptive'",
    ),
    (
        "input_proof.tx.adaptive_slo",
        "none",
        "(select adaptive_slo is null from tidegate.policy where kind = 'input_proof')",
    ),
    ("event_retention", "7 days", "(select event_retention from tidegate.setting) = '7 days'"),
    ("heal_window", "1 minute", "(select heal_window from tidegate.setting) = '1 minute'"),
    ("heal_pause", "5", "(select heal_pause from tidegate.setting) = '5 s'"),
    (
        "user_decrypt.readiness.attempts",
        "11",
        "(select attempts from tidegate.policy where kind = 'user_decrypt' and stage = 'readiness') = 11",
    ),
];

/// A fresh database with a queue more of each stage, to point kinds at.
pub async fn with_more_queues() -> TestDatabase {
    let database = TestDatabase::new().await;
    database.execute("insert into tidegate.queue (name, stage) values ('slow', 'tx'), ('checks', 'readiness')").await;
    database
}

/// Checks that every one of [`NAMES`] has arrived.
pub async fn all_have_arrived(database: &TestDatabase) {
    for (name, set, holds) in NAMES {
        assert_eq!(database.text(holds).await.as_deref(), Some("true"), "{name} = {set}");
    }
}

/// All of [`NAMES`] as one object.
pub fn all_at_once() -> Value {
    NAMES.iter().map(|(name, value, _)| ((*name).to_owned(), json!(value))).collect::<serde_json::Map<_, _>>().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_documented_name_sets_its_column_and_shows_it() {
    let database = with_more_queues().await;
    for (name, set, holds) in NAMES {
        let changed = database.store.config_set(name, set).await.unwrap();
        assert!(!changed.is_empty(), "{name}");
        assert_eq!(database.text(holds).await.as_deref(), Some("true"), "{name} = {set}");
        // Shown under the name it was set by, or under the names that one stands for.
        let shown = database.store.config_get(Some(name)).await.unwrap();
        for change in changed {
            let setting = shown
                .iter()
                .find(|setting| setting.name == change.name)
                .unwrap_or_else(|| panic!("{name} does not show {}", change.name));
            assert_eq!(setting.value, change.new_value, "{name}");
            assert_ne!(change.new_value, change.old_value, "{name}");
        }
    }
    all_have_arrived(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_names_change_in_one_call_and_a_second_call_changes_nothing() {
    let database = with_more_queues().await;
    let changes = format!("select count(*) from tidegate.config_set_many('{}')", all_at_once());

    let changed: usize = database.value(&changes).await.parse().unwrap();
    assert!(changed >= NAMES.len(), "{changed} changed");
    all_have_arrived(&database).await;

    let versions = "select string_agg(version::text, ' ' order by kind, stage) from tidegate.policy";
    let (version, records) =
        (database.value(versions).await, database.number("select count(*) from tidegate.config_change").await);
    assert_eq!(database.value(&changes).await, "0");
    assert_eq!(database.value(versions).await, version);
    assert_eq!(database.number("select count(*) from tidegate.config_change").await, records);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_setting_takes_the_value_it_shows() {
    let database = TestDatabase::new().await;
    let settings = database.store.config_get(None).await.unwrap();
    assert!(settings.len() > 100);

    for setting in settings {
        let value = setting.value.text.as_deref().unwrap_or("none");
        let changed = database.store.config_set(&setting.name, value).await;
        assert_eq!(changed.unwrap(), [], "{}", setting.name);
        assert!(setting.comment.is_some(), "{}", setting.name);
    }
    assert_eq!(database.number("select max(version) from tidegate.policy").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_counts_as_default_is_what_a_row_comes_with() {
    let database = TestDatabase::uninitialised().await;
    database
        .execute(
            "insert into tidegate.queue (name, stage) values ('own', 'tx'), ('own_checks', 'readiness');
             insert into tidegate.kind (name, flow, readiness_queue, tx_queue) values ('fresh', 'decrypt', 'own_checks', 'own')",
        )
        .await;

    let settings = database.store.config_get(None).await.unwrap();
    let changed: Vec<_> = settings
        .iter()
        .filter(|setting| !setting.is_default)
        .map(|setting| setting.name.as_str())
        .filter(|name| !name.ends_with("_queue"))
        .collect();

    assert_eq!(changed, ["user_decrypt.response_threshold"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_a_kind_or_a_stage_names_all_its_settings() {
    let database = TestDatabase::new().await;
    for (name, first, count) in [
        ("tx", "tx.per_seconds", 6),
        ("readiness", "readiness.max_concurrency", 5),
        ("direct.tx", "direct.tx.attempts", 29),
        ("tx_confirmation_ms", "direct.tx_confirmation_ms", 4),
        ("readiness_check_seconds", "public_decrypt.readiness_check_seconds", 2),
        ("safety_margin", "safety_margin", 1),
    ] {
        let shown = database.store.config_get(Some(name)).await.unwrap();
        assert!(shown.len() >= count, "{name}: {shown:?}");
        assert_eq!(shown[0].name, first, "{name}");
    }
}

/// The whole configuration, as text to compare.
const SNAPSHOT: &str = "select string_agg(c::text, E'\n') from tidegate.config as c";

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_cannot_take_the_name_of_a_path() {
    let database = TestDatabase::new().await;
    for name in ["admin", "responses"] {
        let refusal = database
            .refused(&format!("insert into tidegate.kind (name, flow, tx_queue) values ('{name}', 'direct', 'tx')"))
            .await;
        assert_eq!(refusal.constraint, "kind_name_is_not_admin_or_responses");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_admin_configures_and_every_role_reads_the_configuration() {
    let database = TestDatabase::new().await;
    for role in ["reader", "api", "worker", "admin"] {
        let mut session = crate::access::roles::login(&database, role).await;
        assert_ne!(column(&mut session, "select name from tidegate.config").await.len(), 0);
        assert_eq!(column(&mut session, "select name from tidegate.config_get('tx.burst')").await, ["tx.burst"]);
        column(&mut session, "select setting from tidegate.config_history()").await;
        for call in [
            "config_set('tx.burst', '2')",
            "config_set_many('{\"tx.burst\": 3}')",
            "gate_force('tx', 'too_many_requests')",
            "gate_force('tx', null)",
        ] {
            let sql = format!("select * from tidegate.{call}");
            if role == "admin" {
                run(&mut session, &sql).await;
            } else {
                let refusal = refused(&mut session, &sql).await;
                assert_eq!(refusal.code, "42501", "{role}: {sql}");
            }
        }
        for inner in [
            "config_set_backoff('\"0s=1\"')",
            "write_config_change('queue', 'tx', null, '{}', '{}')",
            "set_actor('someone')",
        ] {
            let refusal = refused(&mut session, &format!("select tidegate_internal.{inner}")).await;
            assert_eq!(refusal.code, "42501", "{role}: {inner}");
        }
        for sql in [
            "insert into tidegate.config_change default values",
            "update tidegate.config_change set actor = 'someone'",
            "delete from tidegate.config_change",
            "truncate tidegate.config_change",
        ] {
            assert_eq!(refused(&mut session, sql).await.code, "42501", "{role}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn times_and_rates_have_their_own_units() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    for (name, given, value) in [
        ("direct.tx.timeout_ms", "5s", "5000"),
        ("direct.tx.timeout_ms", "250 ms", "250"),
        ("direct.tx.timeout_ms", "0.01 min", "600"),
        ("direct_processing_seconds", "1500ms", "1.5"),
        ("direct_processing_seconds", "2m", "120"),
        ("direct.processing_ms", "1500", "1.5"),
        ("direct.processing_ms", "3s", "3"),
        ("public_decrypt.readiness_ms", "750", "0.75"),
        ("max_seconds", "2h", "7200"),
        ("tx.per_seconds", "90/min", "1.5"),
        ("tx.per_seconds", "1800 / h", "0.5"),
        ("tx.per_seconds", "20/s", "20"),
    ] {
        let set = format!("select new_value from tidegate.config_set('{name}', '{given}')");
        assert_eq!(column(&mut session, &set).await, [value], "{name} = {given}");
    }
}
