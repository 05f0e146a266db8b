//! Values that no row of a queue, a gate or a round of a gate may have.

use super::Nonsense;

pub(super) const QUEUES: &[Nonsense] = &[
    (
        "queue",
        &[
            ("insert (name, stage) values ('Upper', 'tx')", "queue_name_is_lower_snake_case"),
            ("set per_seconds = -1 where name = 'tx'", "queue_per_seconds_is_zero_to_a_million"),
            ("set per_seconds = 'NaN' where name = 'tx'", "queue_per_seconds_is_zero_to_a_million"),
            ("set burst = 0", "queue_burst_is_at_least_one"),
            ("set max_concurrency = -1 where name = 'readiness'", "queue_max_concurrency_is_not_negative"),
            ("insert (name, stage, fair_by) values ('x', 'tx', 'payload')", "queue_fair_by_is_submitter_or_kind"),
            ("set per_seconds = 1 where name = 'readiness'", "queue_readiness_is_limited_by_concurrency"),
            ("set max_concurrency = 1 where name = 'tx'", "queue_tx_is_limited_by_rate"),
        ],
    ),
    (
        "fair_key",
        &[
            ("insert (queue, name, weight) values ('fair', 'ann', 0)", "fair_key_weight_is_1_to_1000"),
            ("insert (queue, name, weight) values ('fair', 'ann', 1001)", "fair_key_weight_is_1_to_1000"),
        ],
    ),
    (
        "gate",
        &[
            ("set state = 'open'", "gate_state_is_known"),
            ("set mode = 'hard'", "gate_mode_is_known"),
            ("set low_water = high_water", "gate_low_water_is_below_high_water"),
            ("set low_water = -1", "gate_low_water_is_below_high_water"),
            ("set high_water = 1000000001", "gate_high_water_is_at_most_1000000000"),
            ("insert (kind, submitter) values ('direct', 'ann')", "gate_watches_one_thing"),
            ("set submitter = 'ann' where queue = 'tx'", "gate_watches_one_thing"),
            ("insert (submitter) values ('')", "gate_submitter_has_1_to_200_characters"),
            ("insert (submitter) values (repeat('x', 201))", "gate_submitter_has_1_to_200_characters"),
        ],
    ),
    ("gate_round", &[("insert (only_row) values (false)", "gate_round_has_one_row")]),
];
