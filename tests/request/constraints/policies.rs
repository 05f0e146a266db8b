//! Values that no policy, and no estimate or report of a timeout, may have.

use super::Nonsense;

pub(super) const POLICIES: &[Nonsense] = &[
    (
            "policy",
            &[
                ("set attempts = 0", "policy_attempts_is_one_to_a_thousand"),
                ("set base_ms = -1", "policy_base_is_not_negative"),
                ("set factor = 0.9", "policy_factor_is_one_to_a_thousand"),
                ("set cap_ms = base_ms - 1", "policy_cap_is_at_least_base"),
                ("set jitter_ms = -1", "policy_jitter_is_not_negative"),
                ("set timeout_mode = 'guess'", "policy_timeout_mode_is_known"),
                ("set timeout_ms = 0", "policy_timeout_is_positive"),
                ("set percentile = 1", "policy_percentile_is_a_share"),
                (
                    "set safety_factor = 0.5",
                    "policy_safety_factor_is_one_to_a_hundred",
                ),
                ("set connect_ms = 0", "policy_phases_are_positive"),
                (
                    "set margin_ms = deadline_ms",
                    "policy_deadline_is_above_margin",
                ),
                ("set semantics = 'mostly_once'", "policy_semantics_is_known"),
                (
                    "set dedup_window = '59 minutes'",
                    "policy_dedup_window_covers_reordering",
                ),
                (
                    "set dedup_window = '0', span_reorder = '0'",
                    "policy_dedup_window_is_positive",
                ),
                ("set hedge_share = 1.5", "policy_hedge_is_bounded"),
                ("set breaker_probes = 0", "policy_breaker_is_sane"),
                ("set breaker_error_rate = 2", "policy_breaker_is_sane"),
                ("set heal_retry_rate = 0", "policy_heal_rates_are_shares"),
                ("set heal_timeout_rate = 2", "policy_heal_rates_are_shares"),
                (
                    "set stretch_max = 0.5",
                    "policy_stretch_is_one_to_a_hundred",
                ),
                (
                    "set hedge_safe = true, hedge_max = 11",
                    "policy_hedges_at_most_ten",
                ),
                (
                    "set hedge_safe = false, hedge_max = 1",
                    "policy_hedges_only_what_is_safe",
                ),
                (
                    "set timeout_mode = 'phased'",
                    "policy_phases_fit_the_timeout",
                ),
                (
                    "set adaptive_min_ms = 0",
                    "policy_adaptive_min_is_one_to_the_timeout",
                ),
                (
                    "set timeout_mode = 'adaptive', adaptive_min_ms = timeout_ms + 1",
                    "policy_adaptive_min_is_one_to_the_timeout",
                ),
                (
                    "set adaptive_slo = 0",
                    "policy_adaptive_slo_is_a_share_up_to_a_half",
                ),
                (
                    "set adaptive_slo = 'NaN'",
                    "policy_adaptive_slo_is_a_share_up_to_a_half",
                ),
                (
                    "set adaptive_interval_ms = 3600001",
                    "policy_adaptive_interval_is_above_the_timeout_up_to_an_hour",
                ),
                (
                    "set timeout_mode = 'adaptive', adaptive_interval_ms = timeout_ms",
                    "policy_adaptive_interval_is_above_the_timeout_up_to_an_hour",
                ),
                (
                    "set adaptive_k_margin = 1001",
                    "policy_adaptive_k_margin_is_one_to_a_thousand",
                ),
                (
                    "set adaptive_alarm_samples = 1001",
                    "policy_adaptive_alarm_samples_is_one_to_a_thousand",
                ),
                (
                    "set adaptive_best_case = 'mean'",
                    "policy_adaptive_best_case_is_known",
                ),
                (
                    "set adaptive_interval_calls = 1000001",
                    "policy_adaptive_interval_calls_is_one_to_a_million",
                ),
            ],
        ),
    (
            "timeout_estimator (kind, stage, version, state, srtt_ns, rttvar_ns, k_margin, timeout_ns, failure_rate, load_rps,
               high_load_rps, min_age, interval_no, began_at, requests, responses, failures, late, sum_ns, updated_at)",
            &[
                (
                    "insert values ('direct', 'tx', 0, 'normal', 1, 1, 1, 1, 0, 0, null, 0, 0, now(), 0, 0, 0, 0, 0, now())",
                    "timeout_estimator_version_is_positive",
                ),
                (
                    "insert values ('direct', 'tx', 1, 'odd', 1, 1, 1, 1, 0, 0, null, 0, 0, now(), 0, 0, 0, 0, 0, now())",
                    "timeout_estimator_state_is_known",
                ),
                (
                    "insert values ('direct', 'tx', 1, 'normal', -1, 1, 1, 1, 0, 0, null, 0, 0, now(), 0, 0, 0, 0, 0, now())",
                    "timeout_estimator_times_are_not_negative",
                ),
                (
                    "insert values ('direct', 'tx', 1, 'normal', 1, null, 1, 1, 0, 0, null, 0, 0, now(), 0, 0, 0, 0, 0, now())",
                    "timeout_estimator_variance_is_of_a_mean",
                ),
                (
                    "insert values ('direct', 'tx', 1, 'normal', 1, 1, 0, 1, 0, 0, null, 0, 0, now(), 0, 0, 0, 0, 0, now())",
                    "timeout_estimator_k_margin_is_at_least_one",
                ),
                (
                    "insert values ('direct', 'tx', 1, 'normal', 1, 1, 1, 0, 0, 0, null, 0, 0, now(), 0, 0, 0, 0, 0, now())",
                    "timeout_estimator_timeout_is_positive",
                ),
                (
                    "insert values ('direct', 'tx', 1, 'normal', 1, 1, 1, 1, 'NaN', 0, null, 0, 0, now(), 0, 0, 0, 0, 0, now())",
                    "timeout_estimator_failure_rate_is_a_share",
                ),
                (
                    "insert values ('direct', 'tx', 1, 'normal', 1, 1, 1, 1, 0, 'NaN', null, 0, 0, now(), 0, 0, 0, 0, 0, now())",
                    "timeout_estimator_loads_are_rates",
                ),
                (
                    "insert values ('direct', 'tx', 1, 'high_load', 1, 1, 1, 1, 0, 0, 'infinity', 0, 0, now(), 0, 0, 0, 0, 0, now())",
                    "timeout_estimator_loads_are_rates",
                ),
                (
                    "insert values ('direct', 'tx', 1, 'normal', 1, 1, 1, 1, 0, 0, 7, 0, 0, now(), 0, 0, 0, 0, 0, now())",
                    "timeout_estimator_remembers_a_load_in_high_load_only",
                ),
                (
                    "insert values ('direct', 'tx', 1, 'normal', 1, 1, 1, 1, 0, 0, null, 0, 0, now(), 0, 0, -1, 0, 0, now())",
                    "timeout_estimator_counts_are_not_negative",
                ),
            ],
        ),
    (
            "timeout_report (kind, stage, worker, sequence, at, requests, responses, failures, mean_ns, load_rps, in_flight)",
            &[
                (
                    "insert values ('direct', 'tx', 'w', -1, now(), 0, 0, 0, 0, 0, 0)",
                    "timeout_report_counts_are_not_negative",
                ),
                (
                    "insert values ('direct', 'tx', 'w', 1, now(), 0, 0, 0, -1, 0, 0)",
                    "timeout_report_times_are_not_negative",
                ),
                (
                    "insert values ('direct', 'tx', 'w', 1, now(), 0, 0, 0, 0, -1, 0)",
                    "timeout_report_load_is_a_rate",
                ),
            ],
        ),
];
