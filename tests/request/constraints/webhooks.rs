//! Values that no host, secret, policy or delivery of webhooks may have.

use super::Nonsense;

pub(super) const WEBHOOKS: &[Nonsense] = &[
    (
        "webhook_host",
        &[(
            "insert values ('https://hooks.example.com')",
            "webhook_host_is_a_name_an_address_or_a_wildcard_in_lower_case",
        )],
    ),
    ("webhook_secret", &[("insert (secret) values ('short')", "webhook_secret_has_at_least_32_characters")]),
    (
        "webhook_policy",
        &[
            ("insert (only_row) values (false)", "webhook_policy_has_one_row"),
            ("set attempts = 0", "webhook_policy_attempts_is_one_to_a_thousand"),
            ("set base_ms = -1", "webhook_policy_base_is_not_negative"),
            ("set factor = 'NaN'", "webhook_policy_factor_is_one_to_a_thousand"),
            ("set cap_ms = base_ms - 1", "webhook_policy_cap_is_base_to_a_day"),
            ("set timeout_ms = 60001", "webhook_policy_timeout_is_100_ms_to_a_minute"),
            ("set per_host = 0", "webhook_policy_per_host_is_one_to_a_thousand"),
            ("set retention = '0'", "webhook_policy_retention_is_positive"),
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
];
