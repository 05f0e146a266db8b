//! Values that no row of a kind may have.

use super::Nonsense;

pub(super) const KINDS: &[Nonsense] = &[
    ("kind", &[("set not_before_max = '-1 s' where name = 'direct'", "kind_not_before_max_is_not_negative")]),
    (
        "kind",
        &[
            ("insert (name, flow, tx_queue) values ('1st', 'direct', 'tx')", "kind_name_is_lower_snake_case"),
            ("insert (name, flow, tx_queue) values (repeat('k', 56), 'direct', 'tx')", "kind_name_is_lower_snake_case"),
            ("insert (name, flow, tx_queue) values ('admin', 'direct', 'tx')", "kind_name_is_not_admin_or_responses"),
            ("insert (name, flow, tx_queue) values ('k', 'decrypt', 'tx')", "kind_has_a_readiness_queue_iff_decrypt"),
            ("set readiness_queue = 'readiness' where name = 'direct'", "kind_has_a_readiness_queue_iff_decrypt"),
            ("set response_threshold = 2 where name = 'direct'", "kind_threshold_needs_a_decrypt"),
            ("set response_threshold = 0", "kind_threshold_needs_a_decrypt"),
            ("set readiness_ms = -1", "kind_readiness_time_is_zero_to_a_day"),
            ("set processing_ms = 86400001", "kind_processing_time_is_zero_to_a_day"),
            ("set tx_confirmation_ms = -1", "kind_confirmation_time_is_zero_to_a_day"),
            ("set eta = 'guessed'", "kind_eta_is_known"),
            ("set readiness_timeout = '2 hours'", "kind_readiness_timeout_is_within_the_deadline"),
            ("set readiness_timeout = '0 s'", "kind_readiness_timeout_is_within_the_deadline"),
            ("set response_timeout = '0 s'", "kind_response_timeout_is_positive"),
            ("set callback_url = 'ftp://hooks.example.com/'", "kind_callback_url_is_http_of_at_most_2000_characters"),
            ("set slo_p99_ms = 0", "kind_slo_is_a_millisecond_to_a_day"),
            ("set retention = '-1 day'", "kind_retention_is_positive"),
            ("set key_mode = 'random'", "kind_key_mode_is_known"),
            ("set key_scope = 'all'", "kind_key_scope_is_known"),
            ("set key_after_unknown = 'never'", "kind_key_after_unknown_is_known"),
            ("set key_compares = 'some'", "kind_key_compares_is_known"),
            ("set resolve_for = '-1 s'", "kind_resolve_for_is_not_negative"),
            ("set key_mode = 'natural'", "kind_has_key_paths_iff_its_keys_are_natural"),
            ("set key_mode = 'natural', key_paths = '{}'", "kind_has_key_paths_iff_its_keys_are_natural"),
            ("set key_mode = 'proxy', key_paths = '{id}'", "kind_has_key_paths_iff_its_keys_are_natural"),
            ("set key_bucket = '1 hour'", "kind_key_bucket_is_a_positive_time_of_derived_keys"),
            ("set key_mode = 'required', key_bucket = '1 hour'", "kind_key_bucket_is_a_positive_time_of_derived_keys"),
            ("set key_mode = 'proxy', key_bucket = '0'", "kind_key_bucket_is_a_positive_time_of_derived_keys"),
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
            ("set set_paths = '{\"\"}'", "kind_set_paths_are_1_to_16_lists_of_members_joined_by_dots"),
            ("set set_paths = '{tags,.tags}'", "kind_set_paths_are_1_to_16_lists_of_members_joined_by_dots"),
            ("set hidden_paths = '{card,.number}'", "kind_hidden_paths_are_1_to_16_lists_of_members_joined_by_dots"),
            ("set set_paths = array['a,b']", "kind_set_paths_are_1_to_16_lists_of_members_joined_by_dots"),
            ("set set_paths = array[E'a\\nb']", "kind_set_paths_are_1_to_16_lists_of_members_joined_by_dots"),
        ],
    ),
];
