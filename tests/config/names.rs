//! Can everything be set by its documented name, is nonsense refused in words, and is it on record who changed what?

use serde_json::{Value, json};

use crate::support::{
    TestDatabase, campaign,
    race::Session,
    sql::{column, refused, run, value},
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

#[tokio::test(flavor = "multi_thread")]
async fn invalid_values_are_refused_in_words_that_name_the_setting_and_the_allowed_values() {
    let database = TestDatabase::new().await.with_short_policies().await;
    let mut session = database.session().await;
    let before = value(&mut session, SNAPSHOT).await;
    for (name, given, constraint, words) in [
        ("tx.per_seconds", "-1", "queue_per_seconds_is_zero_to_a_million", "per_seconds <= 1000000"),
        ("tx.per_seconds", "1e300", "queue_per_seconds_is_zero_to_a_million", "per_seconds = 0 OR"),
        ("tx.burst", "0", "queue_burst_is_at_least_one", "burst >= 1"),
        ("readiness.max_concurrency", "-1", "queue_max_concurrency_is_not_negative", "max_concurrency >= 0"),
        ("tx.low_water", "1000000", "gate_low_water_is_below_high_water", "low_water < high_water"),
        ("tx.mode", "hard", "gate_mode_is_known", "soft"),
        ("public_decrypt.response_threshold", "0", "kind_threshold_needs_a_decrypt", "response_threshold"),
        ("readiness_check_seconds", "-0.001", "kind_readiness_time_is_zero_to_a_day", "86400000"),
        ("direct_processing_seconds", "86400.001", "kind_processing_time_is_zero_to_a_day", "86400000"),
        ("tx_confirmation_ms", "-1", "kind_confirmation_time_is_zero_to_a_day", "86400000"),
        ("direct.slo_p99_ms", "0", "kind_slo_is_a_millisecond_to_a_day", "86400000"),
        ("direct.eta", "guessed", "kind_eta_is_known", "observed"),
        (
            "public_decrypt.deadline",
            "1 minute",
            "kind_readiness_timeout_is_within_the_deadline",
            "readiness_timeout <= deadline",
        ),
        ("direct.response_timeout", "0", "kind_response_timeout_is_positive", "response_timeout >"),
        ("direct.retention", "-1 day", "kind_retention_is_positive", "retention >"),
        ("direct.tx.attempts", "0", "policy_attempts_is_one_to_a_thousand", "attempts >= 1"),
        ("direct.tx.base_ms", "-1", "policy_base_is_not_negative", "base_ms >= 0"),
        ("direct.tx.factor", "0.5", "policy_factor_is_one_to_a_thousand", "factor >= 1"),
        ("direct.tx.cap_ms", "499", "policy_cap_is_at_least_base", "cap_ms >= base_ms"),
        ("direct.tx.jitter_ms", "-1", "policy_jitter_is_not_negative", "jitter_ms >= 0"),
        ("direct.tx.timeout_mode", "guess", "policy_timeout_mode_is_known", "adaptive"),
        ("direct.tx.timeout_ms", "0", "policy_timeout_is_positive", "timeout_ms > 0"),
        ("direct.tx.percentile", "1", "policy_percentile_is_a_share", "percentile < 1"),
        ("direct.tx.safety_factor", "0", "policy_safety_factor_is_one_to_a_hundred", "safety_factor"),
        ("direct.tx.connect_ms", "0", "policy_phases_are_positive", "connect_ms > 0"),
        ("direct.tx.margin_ms", "120000", "policy_deadline_is_above_margin", "deadline_ms > margin_ms"),
        ("direct.tx.adaptive_min_ms", "0", "policy_adaptive_min_is_one_to_the_timeout", "adaptive_min_ms >= 1"),
        ("direct.tx.adaptive_slo", "0.6", "policy_adaptive_slo_is_a_share_up_to_a_half", "adaptive_slo <= 0.5"),
        (
            "direct.tx.adaptive_interval_ms",
            "0",
            "policy_adaptive_interval_is_above_the_timeout_up_to_an_hour",
            "adaptive_interval_ms > timeout_ms",
        ),
        (
            "direct.tx.adaptive_k_margin",
            "0",
            "policy_adaptive_k_margin_is_one_to_a_thousand",
            "adaptive_k_margin <= 1000",
        ),
        (
            "direct.tx.adaptive_alarm_samples",
            "0",
            "policy_adaptive_alarm_samples_is_one_to_a_thousand",
            "adaptive_alarm_samples <= 1000",
        ),
        ("direct.tx.adaptive_best_case", "worst", "policy_adaptive_best_case_is_known", "minimum"),
        (
            "direct.tx.adaptive_interval_calls",
            "0",
            "policy_adaptive_interval_calls_is_one_to_a_million",
            "adaptive_interval_calls <= 1000000",
        ),
        ("direct.tx.semantics", "mostly_once", "policy_semantics_is_known", "at_most_once"),
        ("direct.tx.dedup_window", "1 minute", "policy_dedup_window_covers_reordering", "dedup_window >= span_reorder"),
        ("direct.tx.hedge_share", "1.5", "policy_hedge_is_bounded", "hedge_share"),
        ("direct.tx.breaker_error_rate", "0", "policy_breaker_is_sane", "breaker_error_rate > 0"),
        ("min_seconds", "0", "setting_min_seconds_is_positive", "min_seconds >= 1"),
        ("min_seconds", "301", "setting_min_is_at_most_max_seconds", "min_seconds <= max_seconds"),
        ("max_seconds", "86401", "setting_min_is_at_most_max_seconds", "max_seconds <= 86400"),
        ("safety_margin", "1.01", "setting_safety_margin_is_zero_to_one", "safety_margin <= 1"),
        ("response_backoff", "0s=0", "response_backoff_seconds_is_positive", "seconds >= 1"),
        ("response_backoff", "-1s=4", "response_backoff_starts_at_zero_or_later", "from_elapsed >="),
        // Not a constraint: the words are the reason.
        ("tx.burst", "none", "", "tx.burst is a number (sends), and not none"),
        ("direct.tx_queue", "nowhere", "", "there is no queue \"nowhere\""),
        ("direct.tx_queue", "readiness", "", "serves the readiness stage"),
        ("tx.paused", "perhaps", "", "tx.paused is true or false, not \"perhaps\""),
        ("direct.deadline", "soon", "", "a time such as 90 s, 15 minutes or 7 days, not \"soon\""),
        ("direct.deadline", "101 years", "", "a time such as"),
        ("direct.tx.timeout_ms", "5 apples", "", "is a number (ms, or with a unit: 5s)"),
        ("direct.tx.timeout_ms", "5.5.5s", "", "is a number (ms, or with a unit: 5s)"),
        ("tx.per_seconds", "5/day", "", "is a number (sends per second, or 100/min) or none"),
        ("tx.per_seconds", "fast/s", "", "is a number (sends per second, or 100/min) or none"),
        ("direct_processing_seconds", "1.0005", "", "takes no fraction of a millisecond"),
        ("tx_confirmation_ms", "0.5", "", "takes no fraction of one"),
        ("tx.high_water", "2147483648", "", "beyond what it can hold"),
        ("response_backoff", "0s=4,0 minutes=5", "", "different times"),
        ("response_backoff", "0s=4,", "", "0s=4,60s=10"),
        ("response_backoff", "0s=4.5", "", "0s=4,60s=10"),
        ("response_backoff", "none", "", "0s=4,60s=10"),
    ] {
        let refusal = refused(&mut session, &format!("select * from tidegate.config_set('{name}', '{given}')")).await;
        assert_eq!(refusal.code, "TG007", "{name} = {given}: {refusal:?}");
        assert_eq!(refusal.constraint, constraint, "{name} = {given}: {refusal:?}");
        let said = format!("{}; {}", refusal.message, refusal.hint);
        assert!(said.contains(words), "{name} = {given}: {said}");
        assert!(said.contains(&constraint.replace('_', " ")), "{name} = {given}: {said}");
        let named = name.rsplit('.').next().unwrap();
        assert!(said.contains(named), "{name} = {given}: {said}");
    }
    assert_eq!(value(&mut session, SNAPSHOT).await, before);
}

/// The whole configuration, as text to compare.
const SNAPSHOT: &str = "select string_agg(c::text, E'\n') from tidegate.config as c";

#[tokio::test(flavor = "multi_thread")]
async fn hostile_values_and_names_change_nothing_and_are_answered_in_words() {
    let database = TestDatabase::new().await;
    let before = database.value(SNAPSHOT).await;
    let long = "9".repeat(100_000);
    let values = [
        "NaN",
        "nan",
        "inf",
        "Infinity",
        "-Infinity",
        "1e400",
        "-1e400",
        "1e999999999",
        "",
        " ",
        "\t",
        "abc",
        "1,5",
        "1 2",
        "0.00000000000000000000000000001",
        "٣",
        "½",
        "１２",
        "💥",
        "'; drop table tidegate.request; --",
        "1); select 1",
        "[1]",
        "{\"a\":1}",
        "{}",
        "-",
        ".",
        "+",
        long.as_str(),
    ];
    for name in [
        "tx.per_seconds",
        "tx.burst",
        "safety_margin",
        "tx.paused",
        "direct_processing_seconds",
        "direct.deadline",
        "direct.tx_queue",
        "response_backoff",
    ] {
        for given in values {
            let refused = database.store.config_set(name, given).await;
            let words = refused.expect_err(&format!("{name} = {given}")).to_string();
            assert!(words.contains(name.rsplit('.').next().unwrap()), "{name}: {words}");
            assert!(words.len() < 1500, "{name}: {} characters", words.len());
        }
    }
    for name in [
        "",
        " ",
        ".",
        "..",
        "tx.",
        ".per_seconds",
        "tx..per_seconds",
        "TX.per_seconds",
        "tx.per_seconds ",
        "tx.name",
        "tx.stage",
        "tx.state",
        "tx.forced",
        "direct.flow",
        "direct.tx.version",
        "setting.min_seconds",
        "only_row",
        "initialised_at",
        "%",
        "tx.per\\_seconds",
        "'; drop table tidegate.request; --",
        "tx.per_seconds\u{2028}",
        "💥",
        "per_seconds",
        "max_concurrency",
        "tx",
        "direct",
        "direct.tx",
        "readiness.per_seconds",
        "tx.max_concurrency",
        "direct.readiness_check_seconds",
        "nope.per_seconds",
        long.as_str(),
    ] {
        let refused = database.store.config_set(name, "1").await;
        assert!(
            matches!(refused, Err(tidegate::internals::error::StoreError::UnknownSetting(_))),
            "{name}: {refused:?}"
        );
    }
    assert_eq!(database.value(SNAPSHOT).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_name_is_answered_with_the_names_beside_it() {
    let database = TestDatabase::new().await;
    for (name, hint) in [
        ("tx.speed", "tx.per_seconds, tx.burst, tx.paused"),
        ("readiness.per_seconds", "readiness.max_concurrency"),
        ("direct.tx.tries", "direct.tx.attempts"),
        ("nope", "tidegate config get"),
    ] {
        let refusal = database.refused(&format!("select tidegate.config_set('{name}', '1')")).await;
        assert_eq!(refusal.code, "TG010");
        assert_eq!(refusal.message, format!("there is no setting \"{name}\""));
        assert!(refusal.hint.contains(hint), "{name}: {}", refusal.hint);
        let asked = format!("select * from tidegate.config_get('{name}')");
        assert_eq!(database.refused(&asked).await.code, "TG010");
        let asked = format!("select * from tidegate.config_history('{name}')");
        assert_eq!(database.refused(&asked).await.code, "TG010");
    }
}

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
async fn two_concurrent_changes_are_serialised_and_both_are_recorded() {
    let database = TestDatabase::new().await;
    let mut first = Session::begin(&database).await;
    first
        .texts("select * from tidegate.config_set_many('{\"tx.burst\": 2, \"min_seconds\": 2, \"direct.eta\": \"observed\"}', 'ann')")
        .await;
    // The other way round, and through the backoff's table: one order of locks for all.
    let second = Session::open(&database).await.start(
        "select setting, old_value, new_value from tidegate.config_set_many('{\"direct.eta\": \"nominal\", \"tx.burst\": 3}', 'bob')",
    );
    second.until_blocked_by(&database, &first).await;
    first.commit().await;
    let (_, mut said) = second.finish().await;
    said.sort();

    assert_eq!(said, ["direct.eta observed nominal", "tx.burst 2 3"]);
    assert_eq!(
        database
            .column(
                "select concat_ws(' ', on_behalf_of, setting, old_value, new_value)
                 from tidegate.config_history('tx.burst')"
            )
            .await,
        ["bob tx.burst 2 3", "ann tx.burst 1 2"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_concurrent_changes_of_many_settings_never_deadlock() {
    let database = TestDatabase::new().await;
    // Any number of attempts is within the budget.
    database.execute("update tidegate.policy set timeout_ms = 1, base_ms = 0, jitter_ms = 0").await;
    let mut tasks = Vec::new();
    for worker in 1..=6 {
        let mut session = Session::open(&database).await;
        tasks.push(tokio::spawn(async move {
            for round in 1..=campaign(5, 15) {
                let n = worker * 100 + round;
                session
                    .texts(&format!(
                        "select * from tidegate.config_set_many(
                           '{{\"tx.burst\": {n}, \"max_seconds\": {n}, \"direct.tx.attempts\": {n}, \"tx.high_water\": {},
                              \"tx_confirmation_ms\": {n}, \"response_backoff\": \"0s={n},{n}s=9\"}}')",
                        n + 1_000_000
                    ))
                    .await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    // The row holds all settings of the last writer.
    assert_eq!(
        database
            .value(
                "select s.max_seconds = q.burst and q.burst = p.attempts and g.high_water = q.burst + 1000000
                   and b.backoff = array['00:00:00=' || q.burst, make_interval(secs => q.burst) || '=9']
                 from tidegate.setting as s, tidegate.queue as q, tidegate.policy as p, tidegate.gate as g,
                   (select array_agg(from_elapsed || '=' || seconds order by from_elapsed) as backoff
                    from tidegate.response_backoff) as b
                 where q.name = 'tx' and p.kind = 'direct' and g.queue = 'tx'"
            )
            .await,
        "t"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_gets_the_old_response_backoff_or_the_new_one() {
    let database = TestDatabase::new().await;
    let mut setter = Session::begin(&database).await;
    setter.texts("select * from tidegate.config_set('response_backoff', '0s=7,10s=8')").await;

    let asked = "select tidegate.response_backoff_seconds('60 s')";
    assert_eq!(database.value(asked).await, "10");
    setter.commit().await;
    assert_eq!(database.value(asked).await, "8");
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
