//! What breaks an invariant of gates, quotas and breakers.

use super::Seed;

pub(super) const GATES: &[Seed] = &[
    ("queue_without_gate", "delete from tidegate.gate where queue = 'tx'", &["submit_terms_outdated"]),
    (
        "gate_open_above_its_mark",
        "update tidegate.gate set high_water = 1, low_water = 0, changed_at = '2026-01-01' where queue = 'readiness';
         update tidegate.config_change set at = '2026-01-01';
         update pgmq.q_readiness set enqueued_at = enqueued_at - interval '1 hour'",
        &[],
    ),
    (
        "gate_closed_below_its_mark",
        "update tidegate.gate set state = 'too_many_requests', changed_at = '2026-01-01' where queue = 'readiness';
         update tidegate.config_change set at = '2026-01-01';
         delete from tidegate.queue_drain",
        &["gate_state_without_its_event"],
    ),
    (
        "gate_closed_below_its_mark",
        "delete from tidegate.quota_usage;
         update tidegate.config_change set at = '2026-01-01';
         update tidegate.gate set state = 'too_many_requests', changed_at = '2026-01-01' where kind = 'input_proof'",
        &["gate_state_without_its_event"],
    ),
    (
        "gate_state_without_its_event",
        "insert into tidegate.gate_event (gate, epoch, state, depth, cause) values ('tx', 0, 'too_many_requests', 1, 'test')",
        &[],
    ),
    (
        "quota_counts_wrongly",
        "insert into tidegate.quota_usage (gate, request_id) values ('kind input_proof', tidegate_internal.uuid_v7())",
        &[],
    ),
    (
        "quota_counts_wrongly",
        "delete from tidegate.quota_usage; update tidegate.gate_round set is_new = false;
         update tidegate.request set submitted_at = submitted_at - interval '1 hour' where kind = 'input_proof'",
        &[],
    ),
    ("breaker_does_not_fit_its_policy", "delete from tidegate.breaker", &["submit_terms_outdated"]),
    (
        "breaker_open_for_too_long",
        "update tidegate.breaker set state = 'open', open_until = now() + interval '1 hour'",
        &["breaker_state_without_its_event"],
    ),
    (
        "gate_closed_below_its_mark",
        "update tidegate.maintenance set ran_at = '-infinity' where duty = 'gates_evaluate';
         update tidegate.config_change set at = '2026-01-01';
         update tidegate.gate set state = 'too_many_requests', changed_at = '2026-01-01' where kind = 'input_proof'",
        &["gate_state_without_its_event"],
    ),
    (
        "gate_state_without_its_event",
        "update tidegate.gate set state = 'too_many_requests', forced = true where queue = 'tx'",
        &["submit_terms_outdated"],
    ),
    ("gate_state_without_its_event", "update tidegate.gate set depth = 7 where queue = 'tx'", &[]),
    (
        "gate_open_above_its_mark",
        "update tidegate.maintenance set ran_at = '-infinity' where duty = 'gates_evaluate';
         update tidegate.gate set high_water = 1, low_water = 0, changed_at = '2026-01-01' where queue = 'readiness';
         update tidegate.config_change set at = '2026-01-01';
         update pgmq.q_readiness set enqueued_at = enqueued_at - interval '2 seconds'",
        &[],
    ),
    ("breaker_state_without_its_event", "update tidegate.breaker set state = 'half_open'", &[]),
    ("breaker_probes_wrong", "update tidegate.breaker set probes = 1, probe_until = now()", &[]),
];
