//! Is an invalid name or value refused in words, and does it change nothing?

use super::SNAPSHOT;
use crate::support::{
    TestDatabase,
    sql::{refused, value},
};

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
        ("direct.deadline", "soon", "", "a time of up to 100 years, such as 90 s, 15 minutes or 7 days, not \"soon\""),
        ("direct.deadline", "101 years", "", "a time of up to 100 years"),
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
