//! Is nonsense refused, and by the name of the rule that it breaks?

use crate::support::{
    TestDatabase,
    race::Session,
    sql::{column, refused, run},
};

#[tokio::test(flavor = "multi_thread")]
async fn every_nonsense_is_refused_by_its_named_constraint() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    let mut tried = Vec::new();
    for (table, changes) in [
        (
            "queue",
            &[
                (
                    "insert (name, stage) values ('Upper', 'tx')",
                    "queue_name_is_lower_snake_case",
                ),
                (
                    "set per_seconds = -1 where name = 'tx'",
                    "queue_per_seconds_is_zero_to_a_million",
                ),
                (
                    "set per_seconds = 'NaN' where name = 'tx'",
                    "queue_per_seconds_is_zero_to_a_million",
                ),
                ("set burst = 0", "queue_burst_is_at_least_one"),
                (
                    "set max_concurrency = -1 where name = 'readiness'",
                    "queue_max_concurrency_is_not_negative",
                ),
                (
                    "set per_seconds = 1 where name = 'readiness'",
                    "queue_readiness_is_limited_by_concurrency",
                ),
                (
                    "set max_concurrency = 1 where name = 'tx'",
                    "queue_tx_is_limited_by_rate",
                ),
            ][..],
        ),
        (
            "kind",
            &[(
                "set not_before_max = '-1 s' where name = 'direct'",
                "kind_not_before_max_is_not_negative",
            )],
        ),
        (
            "gate",
            &[
                ("set state = 'open'", "gate_state_is_known"),
                ("set mode = 'hard'", "gate_mode_is_known"),
                (
                    "set low_water = high_water",
                    "gate_low_water_is_below_high_water",
                ),
                ("set low_water = -1", "gate_low_water_is_below_high_water"),
                (
                    "set high_water = 1000000001",
                    "gate_high_water_is_at_most_1000000000",
                ),
                (
                    "insert (kind, submitter) values ('direct', 'ann')",
                    "gate_watches_one_thing",
                ),
                (
                    "set submitter = 'ann' where queue = 'tx'",
                    "gate_watches_one_thing",
                ),
                (
                    "insert (submitter) values ('')",
                    "gate_submitter_has_1_to_200_characters",
                ),
                (
                    "insert (submitter) values (repeat('x', 201))",
                    "gate_submitter_has_1_to_200_characters",
                ),
            ],
        ),
        (
            "gate_round",
            &[("insert (only_row) values (false)", "gate_round_has_one_row")],
        ),
        (
            "kind",
            &[
                (
                    "insert (name, flow, tx_queue) values ('1st', 'direct', 'tx')",
                    "kind_name_is_lower_snake_case",
                ),
                (
                    "insert (name, flow, tx_queue) values (repeat('k', 56), 'direct', 'tx')",
                    "kind_name_is_lower_snake_case",
                ),
                (
                    "insert (name, flow, tx_queue) values ('admin', 'direct', 'tx')",
                    "kind_name_is_not_admin_or_responses",
                ),
                (
                    "insert (name, flow, tx_queue) values ('k', 'decrypt', 'tx')",
                    "kind_has_a_readiness_queue_iff_decrypt",
                ),
                (
                    "set readiness_queue = 'readiness' where name = 'direct'",
                    "kind_has_a_readiness_queue_iff_decrypt",
                ),
                (
                    "set response_threshold = 2 where name = 'direct'",
                    "kind_threshold_needs_a_decrypt",
                ),
                (
                    "set response_threshold = 0",
                    "kind_threshold_needs_a_decrypt",
                ),
                (
                    "set readiness_ms = -1",
                    "kind_readiness_time_is_zero_to_a_day",
                ),
                (
                    "set processing_ms = 86400001",
                    "kind_processing_time_is_zero_to_a_day",
                ),
                (
                    "set tx_confirmation_ms = -1",
                    "kind_confirmation_time_is_zero_to_a_day",
                ),
                ("set eta = 'guessed'", "kind_eta_is_known"),
                (
                    "set readiness_timeout = '2 hours'",
                    "kind_readiness_timeout_is_within_the_deadline",
                ),
                (
                    "set readiness_timeout = '0 s'",
                    "kind_readiness_timeout_is_within_the_deadline",
                ),
                (
                    "set response_timeout = '0 s'",
                    "kind_response_timeout_is_positive",
                ),
                (
                    "set callback_url = 'ftp://hooks.example.com/'",
                    "kind_callback_url_is_http_of_at_most_2000_characters",
                ),
                ("set slo_p99_ms = 0", "kind_slo_is_a_millisecond_to_a_day"),
                ("set retention = '-1 day'", "kind_retention_is_positive"),
                ("set key_mode = 'random'", "kind_key_mode_is_known"),
                ("set key_scope = 'all'", "kind_key_scope_is_known"),
                ("set key_after_unknown = 'never'", "kind_key_after_unknown_is_known"),
                ("set key_compares = 'some'", "kind_key_compares_is_known"),
                ("set resolve_for = '-1 s'", "kind_resolve_for_is_not_negative"),
                (
                    "set key_mode = 'natural'",
                    "kind_has_key_paths_iff_its_keys_are_natural",
                ),
                (
                    "set key_mode = 'natural', key_paths = '{}'",
                    "kind_has_key_paths_iff_its_keys_are_natural",
                ),
                (
                    "set key_mode = 'proxy', key_paths = '{id}'",
                    "kind_has_key_paths_iff_its_keys_are_natural",
                ),
                (
                    "set key_bucket = '1 hour'",
                    "kind_key_bucket_is_a_positive_time_of_derived_keys",
                ),
                (
                    "set key_mode = 'required', key_bucket = '1 hour'",
                    "kind_key_bucket_is_a_positive_time_of_derived_keys",
                ),
                (
                    "set key_mode = 'proxy', key_bucket = '0'",
                    "kind_key_bucket_is_a_positive_time_of_derived_keys",
                ),
                (
                    "set key_mode = 'natural', key_paths = '{a..b}'",
                    "kind_key_paths_are_1_to_16_lists_of_members_joined_by_dots",
                ),
                (
                    "set key_mode = 'natural', key_paths = array[null::text]",
                    "kind_key_paths_are_1_to_16_lists_of_members_joined_by_dots",
                ),
                (
                    "set key_mode = 'natural', key_paths = array_fill('a'::text, array[17])",
                    "kind_key_paths_are_1_to_16_lists_of_members_joined_by_dots",
                ),
                (
                    "set set_paths = '{\"\"}'",
                    "kind_set_paths_are_1_to_16_lists_of_members_joined_by_dots",
                ),
                (
                    "set set_paths = '{tags,.tags}'",
                    "kind_set_paths_are_1_to_16_lists_of_members_joined_by_dots",
                ),
                (
                    "set hidden_paths = '{card,.number}'",
                    "kind_hidden_paths_are_1_to_16_lists_of_members_joined_by_dots",
                ),
                (
                    "set set_paths = array['a,b']",
                    "kind_set_paths_are_1_to_16_lists_of_members_joined_by_dots",
                ),
                (
                    "set set_paths = array[E'a\\nb']",
                    "kind_set_paths_are_1_to_16_lists_of_members_joined_by_dots",
                ),
            ],
        ),
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
        (
            "submission_sample (kind, submitted, replayed)",
            &[(
                "insert values ('direct', 1, 2)",
                "submission_sample_counts_replays_as_submitted",
            )],
        ),
        (
            "setting",
            &[
                ("insert (only_row) values (false)", "setting_has_one_row"),
                ("set min_seconds = 0", "setting_min_seconds_is_positive"),
                (
                    "set min_seconds = 301",
                    "setting_min_is_at_most_max_seconds",
                ),
                (
                    "set max_seconds = 86401",
                    "setting_min_is_at_most_max_seconds",
                ),
                (
                    "set heal_window = '11 minutes'",
                    "setting_heal_window_is_a_second_to_ten_minutes",
                ),
                (
                    "set event_retention = '59 minutes'",
                    "setting_event_retention_is_at_least_an_hour",
                ),
                (
                    "set heal_pause = '-1 s'",
                    "setting_heal_pause_is_zero_to_an_hour",
                ),
                (
                    "set safety_margin = 1.01",
                    "setting_safety_margin_is_zero_to_one",
                ),
                (
                    "set safety_margin = -0.01",
                    "setting_safety_margin_is_zero_to_one",
                ),
                ("set jitter = 1.01", "setting_jitter_is_zero_to_one"),
                ("set jitter = 'NaN'", "setting_jitter_is_zero_to_one"),
            ],
        ),
        (
            "webhook_host",
            &[(
                "insert values ('https://hooks.example.com')",
                "webhook_host_is_a_name_an_address_or_a_wildcard_in_lower_case",
            )],
        ),
        (
            "webhook_secret",
            &[(
                "insert (secret) values ('short')",
                "webhook_secret_has_at_least_32_characters",
            )],
        ),
        (
            "webhook_policy",
            &[
                (
                    "insert (only_row) values (false)",
                    "webhook_policy_has_one_row",
                ),
                (
                    "set attempts = 0",
                    "webhook_policy_attempts_is_one_to_a_thousand",
                ),
                ("set base_ms = -1", "webhook_policy_base_is_not_negative"),
                (
                    "set factor = 'NaN'",
                    "webhook_policy_factor_is_one_to_a_thousand",
                ),
                (
                    "set cap_ms = base_ms - 1",
                    "webhook_policy_cap_is_base_to_a_day",
                ),
                (
                    "set timeout_ms = 60001",
                    "webhook_policy_timeout_is_100_ms_to_a_minute",
                ),
                (
                    "set per_host = 0",
                    "webhook_policy_per_host_is_one_to_a_thousand",
                ),
                (
                    "set retention = '0'",
                    "webhook_policy_retention_is_positive",
                ),
            ],
        ),
        (
            "webhook_delivery (request_id, id, url, host_port, due_at, event)",
            &[(
                "insert values (gen_random_uuid(), gen_random_uuid(), '', '', now(), 'request.sent')",
                "webhook_delivery_event_is_known",
            )],
        ),
        (
            "webhook_delivery (request_id, id, url, host_port, state, finished_at, lease_token)",
            &[
                (
                    "insert values (gen_random_uuid(), gen_random_uuid(), '', '', 'lost', now(), null)",
                    "webhook_delivery_state_is_known",
                ),
                (
                    "insert values (gen_random_uuid(), gen_random_uuid(), '', '', 'failed', null, null)",
                    "webhook_delivery_is_finished_unless_pending",
                ),
                (
                    "insert values (gen_random_uuid(), gen_random_uuid(), '', '', 'failed', now(), 1)",
                    "webhook_delivery_is_held_only_while_pending",
                ),
            ],
        ),
        (
            "response_backoff",
            &[
                (
                    "set from_elapsed = '-1 s' where from_elapsed = '0 s'",
                    "response_backoff_starts_at_zero_or_later",
                ),
                ("set seconds = 0", "response_backoff_seconds_is_positive"),
            ],
        ),
    ] {
        for (change, constraint) in changes {
            let sql = match change.strip_prefix("insert ") {
                Some(row) => format!("insert into tidegate.{table} {row}"),
                None => format!("update tidegate.{table} {change}"),
            };
            let refusal = refused(&mut session, &sql).await;
            assert_eq!(
                (refusal.code.as_str(), refusal.constraint.as_str()),
                ("23514", *constraint),
                "{sql}"
            );
            tried.push((*constraint).to_owned());
        }
    }

    tried.sort_unstable();
    tried.dedup();
    let there = column(
        &mut session,
        "select conname::text from pg_constraint
         where contype = 'c' and conrelid in (
           select ('tidegate.' || name)::regclass
           from unnest(array['queue', 'gate', 'gate_round', 'kind', 'policy', 'setting', 'response_backoff', 'dedup',
             'submission_sample', 'webhook_host', 'webhook_secret', 'webhook_policy', 'webhook_delivery', 'timeout_estimator',
             'timeout_report']) as name
         )
         order by conname collate \"C\"",
    )
    .await;
    let gone: Vec<_> = tried.iter().filter(|constraint| !there.contains(constraint)).collect();
    assert!(gone.is_empty(), "gone: {gone:?}");
    let untried: Vec<_> = there.iter().filter(|constraint| !tried.contains(constraint)).collect();
    assert!(untried.is_empty(), "not tried: {untried:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_stage_a_rename_and_a_claim_from_the_wrong_side_are_refused() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    for (sql, code) in [
        ("insert into tidegate.kind (name, flow, tx_queue) values ('k', 'direct', 'readiness')", "TG005"),
        ("insert into tidegate.kind (name, flow, tx_queue) values ('k', 'direct', 'nowhere')", "TG005"),
        ("insert into tidegate.kind (name, flow, tx_queue) values ('k', 'direct', null)", "TG005"),
        (
            "insert into tidegate.kind (name, flow, readiness_queue, tx_queue) values ('k', 'decrypt', 'tx', 'tx')",
            "TG005",
        ),
        ("update tidegate.kind set tx_queue = 'readiness' where name = 'direct'", "TG005"),
        ("update tidegate.kind set readiness_queue = 'tx' where name = 'public_decrypt'", "TG005"),
        ("update tidegate.kind set name = 'other' where name = 'direct'", "TG002"),
        ("update tidegate.queue set name = 'other' where name = 'tx'", "TG005"),
        ("update tidegate.queue set stage = 'readiness' where name = 'tx'", "TG005"),
        ("delete from tidegate.queue where name = 'tx'", "23503"),
        ("select * from tidegate.claim_tx('readiness', 'w', 1, '30 s')", "TG005"),
        ("select * from tidegate.claim_readiness('tx', 'w', 1, '30 s')", "TG005"),
        ("select * from tidegate.claim_tx('nowhere', 'w', 1, '30 s')", "TG005"),
        ("select * from tidegate.claim_tx(null, 'w', 1, '30 s')", "TG005"),
        ("select * from tidegate.claim_tx('tx', 'w', 1, '9 ms')", "TG007"),
        ("select * from tidegate.claim_tx('tx', 'w', 1, '25 hours')", "TG007"),
        ("select * from tidegate.claim_readiness('readiness', 'w', 1, null)", "TG007"),
        ("select * from tidegate.pause('nowhere')", "TG005"),
        ("select tidegate.claim_wait_ms('nowhere')", "TG005"),
    ] {
        assert_eq!(refused(&mut session, sql).await.code, code, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_queue_kind_and_submitter_has_one_gate() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    run(
        &mut session,
        "insert into tidegate.gate (kind) values ('direct'); insert into tidegate.gate (submitter) values ('direct')",
    )
    .await;
    for (column, value, constraint) in [
        ("queue", "tx", "gate_queue_has_one"),
        ("kind", "direct", "gate_kind_has_one"),
        ("submitter", "direct", "gate_submitter_has_one"),
    ] {
        let sql = format!("insert into tidegate.gate ({column}) values ('{value}')");
        let refusal = refused(&mut session, &sql).await;
        assert_eq!(refusal.code, "23505", "{sql}");
        // The name is unique too, and may be looked at first.
        assert!([constraint, "gate_pkey"].contains(&refusal.constraint.as_str()), "{sql}: {}", refusal.constraint);
    }
    // Of a kind that there is.
    let sql = "insert into tidegate.gate (kind) values ('nope')";
    assert_eq!(refused(&mut session, sql).await.code, "23503");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_keeps_its_requests_as_long_as_their_keys() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    for nonsense in [
        "update tidegate.kind set retention = '23 hours' where name = 'direct'",
        "update tidegate.policy set dedup_window = '31 days' where kind = 'direct'",
        "insert into tidegate.kind (name, flow, tx_queue, retention) values ('k', 'direct', 'tx', '23 hours')",
        "select tidegate.config_set('direct.retention', '23 hours')",
        "select tidegate.config_set('direct.tx.dedup_window', '31 days')",
        "select tidegate.config_set_many('{\"direct.retention\": \"1 hour\", \"direct.tx.dedup_window\": \"2 hours\"}')",
    ] {
        let refusal = refused(&mut session, nonsense).await;
        assert_eq!(
            (refusal.code.as_str(), refusal.constraint.as_str()),
            ("23514", "kind_retention_is_at_least_the_dedup_window"),
            "{nonsense}: {refusal:?}"
        );
        assert!(
            refusal.message.contains(" < dedup_window ") && refusal.hint.contains("may change together"),
            "{refusal:?}"
        );
    }
    for sense in [
        "update tidegate.kind set retention = '24 hours' where name = 'direct'",
        "update tidegate.kind set retention = null where name = 'direct'",
        "update tidegate.policy set dedup_window = '31 days' where kind = 'direct'",
        "select tidegate.config_set_many('{\"direct.retention\": \"1 hour\", \"direct.tx.dedup_window\": \"1 hour\"}')",
        "begin; insert into tidegate.kind (name, flow, tx_queue, retention) values ('k', 'direct', 'tx', '23 hours');
         update tidegate.policy set dedup_window = '2 hours' where kind = 'k'; commit",
        "update tidegate.policy set dedup_window = '2 days' where kind = 'public_decrypt' and stage = 'readiness'",
    ] {
        run(&mut session, sense).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_and_window_that_change_at_once_still_fit() {
    for (one, other) in [
        (
            "update tidegate.kind set retention = '25 hours' where name = 'direct'",
            "update tidegate.policy set dedup_window = '26 hours' where kind = 'direct'",
        ),
        (
            "update tidegate.policy set dedup_window = '26 hours' where kind = 'direct'",
            "update tidegate.kind set retention = '25 hours' where name = 'direct'",
        ),
    ] {
        let database = TestDatabase::new().await;
        let mut first = Session::begin(&database).await;
        first.execute(one).await;
        first.execute("set constraints all immediate").await;
        let second = Session::open(&database).await.start(other);
        second.until_blocked_by(&database, &first).await;
        first.commit().await;
        let (_, said) = second.outcome().await;
        assert_eq!(said.unwrap_err().0, "23514", "{one}; {other}");
    }
}
