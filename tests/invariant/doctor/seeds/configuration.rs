//! What breaks an invariant of kinds, policies, the schema and the duties.

use super::Seed;

pub(super) const CONFIGURATION: &[Seed] = &[
    (
        "kind_in_a_queue_of_the_wrong_stage",
        "update tidegate.kind set tx_queue = 'readiness' where name = 'direct'",
        &["kind_missing_from_its_queue", "submit_terms_outdated"],
    ),
    ("kind_missing_from_its_queue", "update tidegate.queue set kinds = '{public_decrypt}' where name = 'tx'", &[]),
    ("kind_paused_in_some_queues", "update tidegate.queue set paused_kinds = '{direct}' where name = 'tx'", &[]),
    ("kind_without_policy", "delete from tidegate.policy where kind = 'public_decrypt' and stage = 'readiness'", &[]),
    ("policy_not_in_force", "update tidegate.policy_in_force set attempts = 99 where kind = 'input_proof'", &[]),
    (
        "policy_not_in_force",
        "update tidegate.policy_in_force set timeout_ms = timeout_ms * 10 where kind = 'input_proof'",
        &[],
    ),
    ("policy_not_in_force", "delete from tidegate.policy_in_force where kind = 'input_proof'", &[]),
    (
        "kind_unserved",
        "insert into tidegate.worker (name, stages, queues, kinds) values ('some', '{tx}', '{readiness,tx}', '{none}')",
        &[],
    ),
    (
        "policy_over_its_budget",
        "update tidegate.policy set deadline_ms = 2000 where kind = 'input_proof';
         update tidegate.policy_in_force set deadline_ms = 2000 where kind = 'input_proof'",
        &[],
    ),
    ("kind_forgets_before_its_keys", "update tidegate.kind set retention = '1 second' where name = 'direct'", &[]),
    (
        "submit_terms_outdated",
        "update tidegate.submit_terms set high_water = high_water + 1 where kind = 'direct'",
        &[],
    ),
    ("submit_terms_outdated", "delete from tidegate.submit_terms", &[]),
    ("guard_switched_off", "alter table tidegate.request disable trigger request_guard", &[]),
    (
        "index_is_invalid",
        "update pg_index set indisvalid = false where indexrelid = 'tidegate.request_kind_id_idx'::regclass",
        &[],
    ),
    (
        "queue_function_outdated",
        "do $$ begin
           execute replace(pg_get_functiondef('tidegate_internal.put_back'::regproc), 'pgmq.q_tx', 'pgmq.q_readiness');
         end $$",
        &[],
    ),
    ("single_row_missing", "delete from tidegate.setting", &["submit_terms_outdated"]),
    ("guard_switched_off", "alter table tidegate.kind disable trigger all", &[]),
    ("guard_switched_off", "drop trigger policy_budget on tidegate.policy", &[]),
    (
        "guard_switched_off",
        "create trigger request_guard_of_times before update on tidegate.request
         for each row execute function tidegate_internal.request_guard()",
        &[],
    ),
    (
        "session_holds_back_vacuum",
        "set local application_name = 'tidegate-worker';
         create or replace function tidegate.clock() returns timestamptz language sql volatile parallel safe
         return clock_timestamp() + interval '2 minutes'",
        &["schema_changed"],
    ),
    ("schema_changed", "drop function tidegate.set_callback(uuid, text)", &[]),
    ("schema_changed", "create view tidegate.of_yesterday as select 1 as day", &[]),
    ("schema_changed", "revoke execute on function tidegate.set_callback(uuid, text) from tidegate_api", &[]),
    ("transition_rule_edited", "delete from tidegate.transition_rule where cause = 'cancelled'", &[]),
    (
        "transition_rule_edited",
        "insert into tidegate.transition_rule values ('direct', 'processing', 'completed', 'response')",
        &[],
    ),
    (
        "duty_fails",
        "update tidegate.maintenance set error = 'no', failing_since = now() - interval '2 minutes'
         where duty = 'expire_keys'",
        &[],
    ),
    ("duty_missing", "delete from tidegate.maintenance where duty = 'expire_by_deadline'", &[]),
];
