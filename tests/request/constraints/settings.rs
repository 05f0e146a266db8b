//! Values that no setting, no step of the backoff of responses and no sample of submissions may have.

use super::Nonsense;

pub(super) const SETTINGS: &[Nonsense] = &[
    (
        "submission_sample (kind, submitted, replayed)",
        &[("insert values ('direct', 1, 2)", "submission_sample_counts_replays_as_submitted")],
    ),
    (
        "setting",
        &[
            ("insert (only_row) values (false)", "setting_has_one_row"),
            ("set min_seconds = 0", "setting_min_seconds_is_positive"),
            ("set min_seconds = 301", "setting_min_is_at_most_max_seconds"),
            ("set max_seconds = 86401", "setting_min_is_at_most_max_seconds"),
            ("set heal_window = '11 minutes'", "setting_heal_window_is_a_second_to_ten_minutes"),
            ("set event_retention = '59 minutes'", "setting_event_retention_is_at_least_an_hour"),
            ("set heal_pause = '-1 s'", "setting_heal_pause_is_zero_to_an_hour"),
            ("set safety_margin = 1.01", "setting_safety_margin_is_zero_to_one"),
            ("set safety_margin = -0.01", "setting_safety_margin_is_zero_to_one"),
            ("set jitter = 1.01", "setting_jitter_is_zero_to_one"),
            ("set jitter = 'NaN'", "setting_jitter_is_zero_to_one"),
        ],
    ),
    (
        "response_backoff",
        &[
            ("set from_elapsed = '-1 s' where from_elapsed = '0 s'", "response_backoff_starts_at_zero_or_later"),
            ("set seconds = 0", "response_backoff_seconds_is_positive"),
        ],
    ),
];
