//! Does `doctor` find whatever is wrong by its name, and nothing where nothing is?

use std::{
    process::{Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rand::{SeedableRng, rngs::StdRng};
use serde_json::Value;

use crate::{
    cli::commands::{err, out, run, tidegate},
    support::{
        TestDatabase,
        actors::{ACTS, KINDS, Shared, perform, settle_down},
        campaign,
        race::{NOTHING, Session, a_bit_of_everything, receipt, submit_many},
        until_blocked,
    },
};

const VIOLATIONS: &str = "select name from tidegate.invariant_violation order by name";

/// A database with a request in every situation, all of it as it should be, and a while old.
pub(super) async fn lived_in() -> (TestDatabase, Session) {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "select tidegate.make_partitions();
             update tidegate.policy set breaker_error_rate = 0.5 where kind = 'direct';
             select tidegate.quota_set(kind => 'input_proof', high_water => 1000)",
        )
        .await;
    receipt(&database, "direct", Some("awaited")).await;
    let shares = receipt(&database, "user_decrypt", Some("shares")).await;
    for part in ["a", "b"] {
        database.execute(&format!("select tidegate.respond('1', id => '{shares}', part => '{part}')")).await;
    }
    for (kind, status) in [
        ("direct", "completed"),
        ("direct", "failure"),
        ("input_proof", "completed"),
        ("public_decrypt", "timed_out"),
        ("public_decrypt", "completed"),
    ] {
        database.request_in(kind, status).await;
    }
    database.execute("select tidegate.submit('direct', '{}', idempotency_key => 'key')").await;
    let session = a_bit_of_everything(&database).await;
    // Every duty is done, and as long ago as a slow test takes.
    for sql in [
        "update tidegate.maintenance set ran_at = ran_at - interval '1 day'",
        "call tidegate.maintain()",
        "update tidegate.maintenance set ran_at = ran_at - interval '2 minutes' where duty = 'rescan_queues'",
    ] {
        database.execute(sql).await;
    }
    (database, session)
}

/// What is found in slices of a tenth of a second, of what can be looked for in slices.
const VIOLATIONS_BY_SLICE: &str = "
    with recursive slice as (
      select s.id_from, null::uuid as id_before from tidegate.invariant_slice(null, '100 ms') as s
      union all
      select n.id_from, s.id_from from slice as s cross join lateral tidegate.invariant_slice(s.id_from, '100 ms') as n
      where s.id_from is not null
    )
    select v.name, sum(v.violations)
    from slice as s
    cross join lateral tidegate.check_invariants(
      array(select i.name from tidegate.invariant as i where i.by_request and i.name = any('{$found}')), s.id_from, s.id_before
    ) as v
    group by v.name
    order by v.name";

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_is_read_once_for_all_invariants() {
    let (_database, mut session) = lived_in().await;
    let mut reads = Vec::new();
    for names in ["array['history_with_a_gap']", "null"] {
        let checks = format!(
            "select name from tidegate.check_invariants(
               array(select name from tidegate.invariant where by_request and name = any(coalesce({names}, array[name]))),
               id_before => 'ffffffff-ffff-ffff-ffff-ffffffffffff')"
        );
        let read = session.reads("stored_event_.*", &checks).await;
        reads.push(read.scans + read.index_scans);
    }
    // What has been submitted again is looked up, too.
    assert!(reads[0] > 0 && reads[1] <= 2 * reads[0], "{reads:?}");
}

/// Does SQL past every trigger, looks, and undoes it, in sequences too; what can be looked for in slices is found in
/// slices, too.
async fn found_after(session: &mut Session, sql: &str) -> Vec<String> {
    let as_before = session
        .texts(
            "select format('select setval(%L, %s, %L)', 'tidegate.' || quote_ident(sequencename), coalesce(last_value, start_value),
               last_value is not null)
             from pg_sequences where schemaname = 'tidegate'",
        )
        .await;
    session.execute("begin").await;
    session.execute("set local session_replication_role = replica").await;
    session.execute(sql).await;
    let whole = "select v.name || ' ' || v.violations || case when i.by_request then ' by request' else '' end
                 from tidegate.invariant_violation as v join tidegate.invariant as i on i.name = v.name order by v.name";
    let whole = session.texts(whole).await;
    let found: Vec<_> = (whole.iter()).map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    let by_request: Vec<_> = (whole.iter()).filter_map(|line| line.strip_suffix(" by request")).collect();
    if !by_request.is_empty() {
        let sliced = VIOLATIONS_BY_SLICE.replace("$found", &found.join(","));
        assert_eq!(session.texts(&sliced).await, by_request, "{sql}");
    }
    session.execute("rollback").await;
    session.execute(&as_before.join(";")).await;
    found
}

/// What breaks an invariant, by its name; others that it breaks besides.
const SEEDS: &[(&str, &str, &[&str])] = &[
    (
        "live_request_without_message",
        "delete from pgmq.q_readiness where msg_id = (select max(msg_id) from pgmq.q_readiness)",
        &[],
    ),
    (
        "live_request_without_message",
        "update tidegate.request set queue = 'nowhere' where req_status = 'tx_in_flight'",
        &[],
    ),
    (
        "ended_request_with_message",
        "insert into pgmq.q_tx (vt, message)
         select '-infinity', jsonb_build_object('id', id) from tidegate.request where req_status = 'completed' limit 1;
         update tidegate.request set finished_at = finished_at - interval '1 hour' where req_status = 'completed'",
        &[],
    ),
    (
        "message_without_request",
        "insert into pgmq.q_tx (vt, message) values ('-infinity', '[]')",
        &[],
    ),
    (
        "message_not_named_by_its_request",
        "insert into pgmq.q_tx (vt, message) select '-infinity', message from pgmq.q_tx limit 1",
        &[],
    ),
    (
        "request_held_and_not_in_flight",
        "update tidegate.request set lease = 1 where req_status = 'processing'",
        &[],
    ),
    (
        "request_in_flight_and_not_held",
        "update tidegate.request set lease = null where req_status = 'tx_in_flight'",
        &["live_request_without_message"],
    ),
    (
        "ended_request_under_a_lease",
        "update tidegate.request set lease = 1 where req_status = 'completed'",
        &[],
    ),
    (
        "request_in_two_places",
        "insert into pgmq.q_tx (msg_id, vt, message) overriding system value
         select msg_id, '-infinity', jsonb_build_object('id', id) from tidegate.request where req_status = 'tx_in_flight'",
        &[],
    ),
    (
        "request_in_two_places",
        "insert into tidegate.claim select token, part + 1, queue, worker, claimed_at, until, lease_ms, ids from tidegate.claim",
        &[],
    ),
    (
        "message_snoozed_beyond_its_deadline",
        "update pgmq.q_tx set vt = 'infinity' where true",
        &[],
    ),
    (
        "message_below_the_watermark",
        "select setval('tidegate.watermark_readiness', 1000000);
         update tidegate.maintenance set ran_at = '-infinity' where duty = 'rescan_queues'",
        &[],
    ),
    (
        "queue_without_storage",
        "drop sequence tidegate.survey_cursor_tx",
        &[],
    ),
    (
        "queue_numbers_used_twice",
        "insert into pgmq.q_tx (msg_id, vt, message) overriding system value values (1000000, '-infinity', '[]')",
        &["message_without_request"],
    ),
    (
        "pacing_far_ahead",
        "update tidegate.queue set per_seconds = 10 where name = 'tx';
         select setval('tidegate.pacing_tx', ((extract(epoch from now()) + 3600) * 1000000000)::bigint)",
        &["submit_terms_outdated"],
    ),
    (
        "survey_does_not_add_up",
        "insert into tidegate.queue_survey values ('tx', 7, 5, '{1,2}')",
        &[],
    ),
    (
        "queue_without_gate",
        "delete from tidegate.gate where queue = 'tx'",
        &["submit_terms_outdated"],
    ),
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
    (
        "history_does_not_end_at_the_status",
        "update tidegate.request set transition_no = transition_no + 1 where req_status = 'queued'",
        &[],
    ),
    (
        "history_with_a_miscounted_send",
        "update tidegate.stored_event set attempt = attempt + 1 where from_status = 'tx_in_flight'",
        &["attempts_counted_wrongly"],
    ),
    (
        "history_with_a_gap",
        "update tidegate.request set transition_no = transition_no + 1 where cause = 'claimed'",
        &[],
    ),
    (
        "history_with_an_illegal_step",
        "insert into tidegate.stored_event select request_id, 1, null, to_status, at, attempt, 'rejected'
         from tidegate.request_event where cause = 'submitted'",
        &["history_does_not_end_at_the_status"],
    ),
    (
        "history_partition_missing",
        "do $$ begin execute format('drop table tidegate.%I', 'stored_event_' || to_char(now() at time zone 'UTC', 'YYYY_MM_DD')); end $$",
        &["history_does_not_end_at_the_status", "history_with_a_gap"],
    ),
    (
        "status_without_its_time",
        "update tidegate.request set finished_at = now() where req_status = 'queued'",
        &[],
    ),
    (
        "ended_request_that_names_a_message",
        "update tidegate.request set queue = 'tx' where req_status = 'completed'",
        &[],
    ),
    (
        "live_request_without_deadline",
        "update tidegate.request set readiness_deadline_at = null where req_status = 'queued'",
        &[],
    ),
    (
        "live_request_without_deadline",
        "delete from tidegate.awaiting_response",
        &[],
    ),
    (
        "request_past_its_deadline",
        "update tidegate.request set deadline_at = now() - interval '1 hour' where req_status = 'processing'",
        &[],
    ),
    (
        "awaiting_response_of_no_request",
        "insert into tidegate.awaiting_response select id, now() from tidegate.request where req_status = 'queued' limit 1",
        &[],
    ),
    (
        "completed_request_without_response",
        "update tidegate.request set response = null where req_status = 'completed' and kind = 'direct'",
        &[],
    ),
    (
        "shares_reached_and_not_completed",
        "insert into tidegate.response_part (request_id, part)
         select id, 'c' from tidegate.request where kind = 'user_decrypt'",
        &[],
    ),
    (
        "request_without_its_reference",
        "insert into tidegate.request_reference
         select 'led_astray', id from tidegate.request where req_status = 'completed' and reference is null limit 1;
         update tidegate.request set reference = 'led_astray'
         where req_status = 'receipt_received' and reference is distinct from 'awaited'",
        &["reference_of_another_request"],
    ),
    (
        "request_without_its_reference",
        "delete from tidegate.request_reference where reference = 'awaited'",
        &[],
    ),
    (
        "leftover_of_a_removed_request",
        "insert into tidegate.response_part (request_id, part) values (tidegate_internal.uuid_v7(), 'c')",
        &[],
    ),
    (
        "response_left_in_the_inbox",
        "insert into tidegate.response_inbox (reference, response, received_at) values ('awaited', '1', '2026-01-01');
         update tidegate.request set receipt_received_at = '2026-01-01' where reference = 'awaited'",
        &[],
    ),
    (
        "outcome_of_no_failed_request",
        "insert into tidegate.outcome (request_id, kind, executed, source)
         select id, kind, 'unknown', 'attempts' from tidegate.request where req_status = 'queued' limit 1",
        &[],
    ),
    (
        "sent_after_its_cancel",
        "update tidegate.request set cancel_requested_at = tx_in_flight_at - interval '1 s' where reference = 'awaited'",
        &[],
    ),
    (
        "delivery_of_a_live_request",
        "insert into tidegate.webhook_delivery (request_id, id, url, host_port)
         select id, tidegate_internal.uuid_v7(), 'http://a', 'a:80' from tidegate.request where req_status = 'queued' limit 1",
        &[],
    ),
    (
        "redrive_of_unfailed_request",
        "insert into tidegate.redrive (request_id, redriven_as)
         select id, tidegate_internal.uuid_v7() from tidegate.request where req_status = 'queued' limit 1",
        &[],
    ),
    (
        "redrive_of_unfailed_request",
        "insert into tidegate.redrive (request_id, redriven_as)
         select id, tidegate_internal.uuid_v7() from tidegate.request where req_status = 'failure' limit 1",
        &[],
    ),
    (
        "key_of_no_request",
        "update tidegate.dedup set request_id = tidegate_internal.uuid_v7()",
        &[],
    ),
    (
        "counts_do_not_add_up",
        "insert into tidegate.request_count_delta (kind, req_status, delta) values ('direct', 'queued', 1)",
        &[],
    ),
    (
        "request_of_no_kind",
        "delete from tidegate.kind where name = 'input_proof'; delete from tidegate.policy where kind = 'input_proof'",
        &[],
    ),
    (
        "kind_in_a_queue_of_the_wrong_stage",
        "update tidegate.kind set tx_queue = 'readiness' where name = 'direct'",
        &["kind_missing_from_its_queue", "submit_terms_outdated"],
    ),
    (
        "kind_missing_from_its_queue",
        "update tidegate.queue set kinds = '{public_decrypt}' where name = 'tx'",
        &[],
    ),
    (
        "kind_paused_in_some_queues",
        "update tidegate.queue set paused_kinds = '{direct}' where name = 'tx'",
        &[],
    ),
    (
        "kind_without_policy",
        "delete from tidegate.policy where kind = 'public_decrypt' and stage = 'readiness'",
        &[],
    ),
    (
        "policy_not_in_force",
        "update tidegate.policy_in_force set attempts = 99 where kind = 'input_proof'",
        &[],
    ),
    (
        "policy_not_in_force",
        "update tidegate.policy_in_force set timeout_ms = timeout_ms * 10 where kind = 'input_proof'",
        &[],
    ),
    (
        "policy_not_in_force",
        "delete from tidegate.policy_in_force where kind = 'input_proof'",
        &[],
    ),
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
    (
        "kind_forgets_before_its_keys",
        "update tidegate.kind set retention = '1 second' where name = 'direct'",
        &[],
    ),
    (
        "breaker_does_not_fit_its_policy",
        "delete from tidegate.breaker",
        &["submit_terms_outdated"],
    ),
    (
        "breaker_open_for_too_long",
        "update tidegate.breaker set state = 'open', open_until = now() + interval '1 hour'",
        &["breaker_state_without_its_event"],
    ),
    (
        "submit_terms_outdated",
        "update tidegate.submit_terms set high_water = high_water + 1 where kind = 'direct'",
        &[],
    ),
    (
        "submit_terms_outdated",
        "delete from tidegate.submit_terms",
        &[],
    ),
    (
        "guard_switched_off",
        "alter table tidegate.request disable trigger request_guard",
        &[],
    ),
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
    (
        "single_row_missing",
        "delete from tidegate.setting",
        &["submit_terms_outdated"],
    ),
    (
        "claim_invalid",
        "insert into tidegate.claim (token, queue, claimed_at, until, lease_ms, ids) values (1, 'tx', now(), now(), 1, '{}')",
        &[],
    ),
    (
        "claim_invalid",
        "update tidegate.claim set until = 'infinity'",
        &[],
    ),
    (
        "ended_request_with_message",
        "insert into pgmq.q_tx (vt, message)
         select '-infinity', jsonb_build_object('id', id) from tidegate.request where req_status = 'receipt_received' limit 1",
        &[],
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
    (
        "gate_state_without_its_event",
        "update tidegate.gate set depth = 7 where queue = 'tx'",
        &[],
    ),
    (
        "gate_open_above_its_mark",
        "update tidegate.maintenance set ran_at = '-infinity' where duty = 'gates_evaluate';
         update tidegate.gate set high_water = 1, low_water = 0, changed_at = '2026-01-01' where queue = 'readiness';
         update tidegate.config_change set at = '2026-01-01';
         update pgmq.q_readiness set enqueued_at = enqueued_at - interval '2 seconds'",
        &[],
    ),
    (
        "history_does_not_end_at_the_status",
        "insert into tidegate.stored_event (request_id, transition_no, from_status, to_status, at, attempt, cause)
         select id, 2, 'processing', 'tx_in_flight', now(), 1, 'claimed' from tidegate.request
         where transition_no = 1 and req_status = 'processing' limit 1",
        &[],
    ),
    (
        "history_of_a_lost_request",
        "insert into tidegate.stored_event select e.*
         from tidegate.request_event as e join tidegate.request as r on r.id = e.request_id where r.reference = 'awaited';
         delete from tidegate.request where reference = 'awaited'",
        &["counts_do_not_add_up", "leftover_of_a_removed_request", "awaiting_response_of_no_request"],
    ),
    (
        "attempts_counted_wrongly",
        "update tidegate.request set tx_attempt = tx_attempt + 1 where req_status = 'processing'",
        &[],
    ),
    (
        "attempts_beyond_the_policy",
        "update tidegate.request set readiness_attempt = 9999 where req_status = 'queued'",
        &[],
    ),
    (
        "history_partition_missing",
        "drop table tidegate.stored_event_default",
        &[],
    ),
    (
        "time_in_the_future",
        "update tidegate.request set finished_at = now() + interval '1 day' where req_status = 'completed'",
        &[],
    ),
    (
        "live_request_without_deadline",
        "update tidegate.request set deadline_at = 'infinity' where req_status in ('processing', 'tx_in_flight')",
        &[],
    ),
    (
        "response_of_a_live_request",
        "update tidegate.request set response = '1' where req_status = 'processing'",
        &[],
    ),
    (
        "completed_without_its_shares",
        "update tidegate.request set cause = 'threshold_reached', response_threshold = 3
         where req_status = 'completed' and kind = 'public_decrypt'",
        &[],
    ),
    (
        "share_of_a_request_that_awaits_none",
        "insert into tidegate.response_part (request_id, part)
         select id, 'c' from tidegate.request where req_status = 'queued'",
        &[],
    ),
    (
        "reference_of_another_request",
        "update tidegate.request_reference set request_id = (select id from tidegate.request where req_status = 'queued' limit 1)
         where reference = 'awaited'",
        &["request_without_its_reference"],
    ),
    (
        "ended_request_without_delivery",
        "update tidegate.request set callback_url = 'http://a' where req_status = 'completed'",
        &[],
    ),
    (
        "breaker_state_without_its_event",
        "update tidegate.breaker set state = 'half_open'",
        &[],
    ),
    (
        "breaker_probes_wrong",
        "update tidegate.breaker set probes = 1, probe_until = now()",
        &[],
    ),
    (
        "guard_switched_off",
        "alter table tidegate.kind disable trigger all",
        &[],
    ),
    (
        "guard_switched_off",
        "drop trigger policy_budget on tidegate.policy",
        &[],
    ),
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
    (
        "schema_changed",
        "drop function tidegate.set_callback(uuid, text)",
        &[],
    ),
    (
        "schema_changed",
        "create view tidegate.of_yesterday as select 1 as day",
        &[],
    ),
    (
        "schema_changed",
        "revoke execute on function tidegate.set_callback(uuid, text) from tidegate_api",
        &[],
    ),
    (
        "transition_rule_edited",
        "delete from tidegate.transition_rule where cause = 'cancelled'",
        &[],
    ),
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
    (
        "request_passed_over",
        "insert into tidegate.passed_over (request_id, duty, since, retry_at, error)
         select id, 'expire_requests', now(), now(), 'no' from tidegate.request limit 1",
        &[],
    ),
    (
        "duty_missing",
        "delete from tidegate.maintenance where duty = 'expire_by_deadline'",
        &[],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_inconsistency_is_found_by_its_name_and_nothing_else_is() {
    let (database, _) = lived_in().await;
    // Some of it only a superuser can do.
    let mut session = Session::open_as_superuser(&database).await;
    assert_eq!(session.texts(VIOLATIONS).await, NOTHING);

    let mut wrong = Vec::new();
    for (name, sql, besides) in SEEDS {
        let found = found_after(&mut session, sql).await;
        let mut expected = [&[*name], *besides].concat();
        expected.sort_unstable();
        if found != expected {
            wrong.push(format!("{sql}: found {found:?}, expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");

    let names = session.texts("select name from tidegate.invariant").await;
    for name in names {
        assert!(SEEDS.iter().any(|(seed, ..)| *seed == name), "nothing seeds {name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_query_shows_what_was_counted_and_sampled() {
    let (_database, mut session) = lived_in().await;
    session
        .execute(
            "set session_replication_role = replica;
             delete from pgmq.q_readiness;
             set session_replication_role = origin",
        )
        .await;

    let (query, expected) = {
        let found = session
            .text("select violations || ' ' || samples[1] || ' ' || query from tidegate.invariant_violation")
            .await;
        let (expected, query) = found.split_at(found.find(" select").unwrap());
        (query.to_owned(), expected.to_owned())
    };
    let shown = session.text(&format!("select count(*), min(id) from ({query}) as v")).await;
    assert_eq!(shown, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_trigger_and_every_duty_is_on_the_doctors_lists() {
    let (_database, mut session) = lived_in().await;

    for forgotten in [
        "select format('trigger %I on tidegate.%I', t.tgname, c.relname)
         from pg_trigger as t join pg_class as c on c.oid = t.tgrelid
         where c.relnamespace = 'tidegate'::regnamespace and not t.tgisinternal and t.tgparentid = 0
         except
         select jsonb_object_keys(s.objects) from tidegate.schema_state as s where s.schema = 'tidegate'",
        "select d.duty
         from tidegate.maintenance as d
         join tidegate.invariant as i on i.name = 'duty_missing' and strpos(i.query, quote_literal(d.duty)) = 0",
    ] {
        assert_eq!(session.texts(forgotten).await, NOTHING, "{forgotten}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_fails_counts_as_a_violation() {
    let (_database, mut session) = lived_in().await;
    session.execute("begin; alter table tidegate.queue_survey rename to renamed").await;

    let said = session.texts("select name || ': ' || samples[1] from tidegate.invariant_violation order by name").await;

    assert_eq!(said.len(), 2, "{said:?}");
    // The table's own absence is a finding, too.
    assert_eq!(said[0], "schema_changed: table tidegate.queue_survey is missing");
    assert!(said[1].starts_with("survey_does_not_add_up: it could not be checked: relation"), "{said:?}");
}

/// Everything that workers and callers do; not what operators do, which may well leave something to be found.
const FLEET: [&str; 19] = [
    "claim_readiness",
    "claim_tx",
    "claim_readiness",
    "claim_tx",
    "settle_passed",
    "settle_snooze",
    "settle_failed",
    "settle_receipt",
    "settle_retry",
    "settle_rejected",
    "release_tx",
    "extend",
    "cancel",
    "respond_by_id",
    "respond_by_reference",
    "submit",
    "submit_batch",
    "recover",
    "maintain",
];

#[tokio::test(flavor = "multi_thread")]
async fn while_a_fleet_works_there_is_no_false_alarm() {
    assert!(FLEET.iter().all(|act| ACTS.contains(act)));
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy set base_ms = 5, factor = 1, cap_ms = 5, jitter_ms = 0;
             update tidegate.maintenance set period = '1 millisecond';
             update tidegate.gate set high_water = 60, low_water = 40;
             select tidegate.make_partitions()",
        )
        .await;
    let mut shared = Arc::new(Shared::default());
    Arc::get_mut(&mut shared).unwrap().gates_flip = true;
    for kind in KINDS {
        let ids = submit_many(&database, kind, 10).await;
        shared.ids.lock().unwrap().extend(ids);
    }
    let done = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for actor in 0..4 {
        let mut session = Session::open(&database).await;
        let (shared, done) = (Arc::clone(&shared), Arc::clone(&done));
        tasks.push(tokio::spawn(async move {
            let mut random = StdRng::seed_from_u64(actor);
            let mut acts = 0;
            while !done.load(Ordering::Relaxed) || acts < 100 {
                let act = FLEET[rand::Rng::random_range(&mut random, 0..FLEET.len())];
                let error = perform(act, &mut session, &shared, &mut random).await;
                assert_eq!(error, None);
                acts += 1;
            }
        }));
    }

    let mut doctor = Session::open(&database).await;
    for _ in 0..campaign(5, 12) {
        assert_eq!(
            doctor.texts("select name, violations, samples, query from tidegate.invariant_violation").await,
            NOTHING
        );
    }
    done.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    settle_down(&database).await;
    assert_eq!(doctor.texts(VIOLATIONS).await, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_names_what_is_wrong_and_shows_the_query() {
    let (database, mut session) = lived_in().await;
    let fine = run(&database.url, &["doctor"]).await;
    assert_eq!(fine.status.code(), Some(0), "{}{}", out(&fine), err(&fine));
    assert!(out(&fine).contains("invariants hold"), "{}", out(&fine));

    session.texts("select pgmq.purge_queue('tx')").await;
    let wrong = run(&database.url, &["doctor"]).await;
    assert_eq!(wrong.status.code(), Some(3));
    for words in [
        "live_request_without_message: ",
        "rule: a request that is queued",
        "    select r.id::text as id",
        "from pgmq.q_tx",
        "1 of ",
        "`tidegate recover` repairs part of this",
    ] {
        assert!(out(&wrong).contains(words), "{words}: {}", out(&wrong));
    }
    let wrong = run(&database.url, &["doctor", "--json"]).await;
    assert_eq!(wrong.status.code(), Some(3));
    let said: Value = serde_json::from_slice(&wrong.stdout).unwrap();
    assert_eq!(said["sound"], false);
    assert_eq!(said["violations"][0]["name"], "live_request_without_message");
    assert!(said["violations"][0]["violations"].as_i64() > Some(0));

    run(&database.url, &["recover"]).await;
    let fine = run(&database.url, &["doctor", "--json"]).await;
    assert_eq!(fine.status.code(), Some(0), "{}", out(&fine));
    let said: Value = serde_json::from_slice(&fine.stdout).unwrap();
    assert_eq!(said["sound"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_full_queues_would_take_up_is_a_warning_and_no_violation() {
    let (database, mut session) = lived_in().await;
    let warnings = "select subject || ': ' || message from tidegate.configuration_warning";
    // The limits of the example.
    session
        .execute(
            "update tidegate.queue set per_seconds = 10 where name = 'tx';
             update tidegate.queue set max_concurrency = 50 where name = 'readiness';
             update tidegate.gate set high_water = 2000, low_water = 1000 where queue is not null",
        )
        .await;
    assert_eq!(session.texts(warnings).await, NOTHING);

    // 2245250 ms of attempts leave 1354.75 s of the hour to the queue.
    for (high_water, expected) in
        [(13_547, None), (13_548, Some("1354800 (queues: tx at 13548) + 2245250 (W_retry) = 3600050 > 3600000 ms"))]
    {
        session.execute(&format!("update tidegate.gate set high_water = {high_water} where queue = 'tx'")).await;
        let told = session.texts(&format!("{warnings} where subject = 'kind direct'")).await;
        assert_eq!(told.len(), usize::from(expected.is_some()), "{told:?}");
        assert!(told.iter().all(|told| told.ends_with(expected.unwrap())), "{told:?}");
    }
    // Both queues of a decrypt count: 2000 checks of 2 s, 50 at once, take 80 s.
    let both = session.text(&format!("{warnings} where subject = 'kind public_decrypt'")).await;
    assert!(both.contains(" 1434800 (queues: readiness at 2000, tx at 13548) + "), "{both}");

    let told = run(&database.url, &["doctor"]).await;
    assert_eq!(told.status.code(), Some(0), "{}", out(&told));
    let warning = "warning: deadline_taken_up_by_full_queues: kind direct\n  the waits in full queues";
    assert!(out(&told).contains(warning), "{}", out(&told));
    assert!(out(&told).contains("invariants hold"), "{}", out(&told));
    let told = run(&database.url, &["doctor", "--json"]).await;
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told["sound"], true);
    assert_eq!(told["warnings"].as_array().unwrap().len(), 4);

    // The largest mark that a gate may have.
    session.execute("update tidegate.gate set high_water = 1000000000 where queue = 'tx'").await;
    assert_eq!(session.texts(warnings).await.len(), 4);

    // A queue without a limit, or one that is stopped, is no matter of configuration.
    for rate in ["null", "0"] {
        session.execute(&format!("update tidegate.queue set per_seconds = {rate} where name = 'tx'")).await;
        assert_eq!(session.texts(warnings).await, NOTHING, "{rate}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_legal_for_a_moment_is_no_violation() {
    let (database, mut session) = lived_in().await;
    // A mark that was lowered just now, a quota that was removed before its requests ended, a deadline and a
    // response of this moment.
    session
        .execute(
            "update pgmq.q_readiness set enqueued_at = enqueued_at - interval '1 hour';
             set session_replication_role = replica;
             update tidegate.gate set changed_at = '2026-01-01';
             set session_replication_role = origin;
             update tidegate.gate set high_water = 2, low_water = 1 where queue = 'readiness';
             select tidegate.quota_remove('kind input_proof');
             update tidegate.request set deadline_at = now() where req_status = 'processing';
             insert into tidegate.response_inbox (reference, response) values ('awaited', '1')",
        )
        .await;

    assert_eq!(session.texts(VIOLATIONS).await, NOTHING);
    database.execute("call tidegate.maintain()").await;
    assert_eq!(session.texts(VIOLATIONS).await, NOTHING);
}

/// Interrupts a doctor that waits for a lock on a table: it has examined the invariants of queues, and no request.
pub(super) async fn interrupted(database: &TestDatabase, arguments: &[&str]) -> Output {
    let mut holder = Session::begin(database).await;
    holder.execute("lock table tidegate.redrive in access exclusive mode").await;
    let doctor = tidegate(&database.url).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until_blocked(database, 1).await;
    let pid = nix::unistd::Pid::from_raw(i32::try_from(doctor.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = doctor.wait_with_output().await.unwrap();
    holder.rollback().await;
    output
}

#[tokio::test(flavor = "multi_thread")]
async fn violations_found_so_far_are_shown_at_the_time_limit_and_on_an_interrupt() {
    let (database, mut session) = lived_in().await;
    session.execute("insert into pgmq.q_tx (vt, message) values ('-infinity', '[]')").await;

    let hurried = run(&database.url, &["doctor", "--time-limit", "1ms"]).await;
    assert_eq!(hurried.status.code(), Some(1), "{}", out(&hurried));
    for words in [
        "no violation of ",
        "read: the newest 0 of about ",
        "not examined, or not to the end: ended_request_with_message, ",
        "`tidegate doctor --time-limit 0s` reads everything",
    ] {
        assert!(out(&hurried).contains(words), "{words}: {}", out(&hurried));
    }

    let broken_off = interrupted(&database, &["doctor", "--json"]).await;
    assert_eq!(broken_off.status.code(), Some(3));
    let said: Value = serde_json::from_slice(&broken_off.stdout).unwrap();
    assert_eq!(said["violations"][0]["name"], "message_without_request");
    assert_eq!(said["complete"], false);
    assert_eq!(said["requests_read"], 0);

    let whole = run(&database.url, &["doctor", "--json", "--time-limit", "0s"]).await;
    let said: Value = serde_json::from_slice(&whole.stdout).unwrap();
    assert_eq!(said["complete"], true, "{said}");
    assert_eq!(said["requests_read"], said["requests"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_goes_meanwhile_is_no_violation() {
    let (database, _session) = lived_in().await;
    database.execute("insert into tidegate.queue (name, stage) values ('short_lived', 'tx')").await;
    let mut holder = Session::begin(&database).await;
    holder.execute("lock table pgmq.q_readiness").await;

    let url = database.url.clone();
    let doctor = tokio::spawn(async move { run(&url, &["doctor"]).await });
    until_blocked(&database, 1).await;
    database.execute("delete from tidegate.queue where name = 'short_lived'").await;
    holder.rollback().await;

    let said = doctor.await.unwrap();
    assert_eq!(said.status.code(), Some(0), "{}", out(&said));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_traffic_shows_of_a_kind_is_a_warning() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    let mut session = Session::open(&database).await;
    let warnings = "select name || ': ' || message from tidegate.configuration_warning where subject = 'kind direct'";
    assert_eq!(session.texts(warnings).await, NOTHING);

    for (timeouts, calls, warns) in [(2, 2, false), (3, 3, true), (27, 30, true), (26, 30, false)] {
        session
            .execute(&format!(
                "delete from tidegate.call_second;
                 insert into tidegate.call_second (kind, stage, at, requests, calls, failures, timeouts, retries, slow, hedges, latency_ms)
                 values ('direct', 'tx', tidegate.clock(), 1, {calls}, {timeouts}, {timeouts}, 0, 0, 0, '{{}}')"
            ))
            .await;
        let told = session.texts(warnings).await.join("\n");
        let said =
            format!("attempts_time_out: {timeouts} of {calls} calls of stage tx in the last five minutes were cut");
        assert_eq!(told.starts_with(&said), warns, "{timeouts} {calls}: {told}");
        assert_eq!(told.ends_with("raise direct.tx.timeout_ms"), warns, "{told}");
    }
    session.execute("delete from tidegate.call_second").await;

    // The nominal 2.1 s, against what the last responses took.
    for (ms, samples, eta, warns) in [
        (30_000, 19, "nominal", false),
        (30_000, 20, "nominal", true),
        (30_000, 20, "observed", false),
        (4_200, 20, "nominal", false),
        (4_300, 20, "nominal", true),
        (1_100, 20, "nominal", false),
        (1_000, 20, "nominal", true),
    ] {
        session
            .execute(&format!(
                "update tidegate.kind set eta = '{eta}' where name = 'direct';
                 delete from tidegate.finish_sample;
                 insert into tidegate.finish_sample (
                   kind, requests, answer_ms, predicted, error_ms, error_abs_ms, error_bins, p90_stated, p90_held
                 )
                 values ('direct', 1, array_fill({ms}, array[{samples}]), 0, 0, 0, array_fill(0, array[8]), 0, 0)"
            ))
            .await;
        let told = session.texts(warnings).await.join("\n");
        let said = "nominal_time_is_not_measured: callers are told the nominal 2.1 s from the send to the response";
        assert_eq!(told.starts_with(said), warns, "{ms} {samples} {eta}: {told}");
    }
    session.execute("delete from tidegate.finish_sample").await;

    let settle = "select from tidegate.submit('direct', '1');
                  select tidegate_internal.settle_receipt(array_agg(c.lease)) from tidegate.claim_tx('tx', 'w', 1, '1 minute') as c";
    session.execute(settle).await;
    let later = "update public.test_clock set at = at + interval '61 s'";
    assert_eq!(session.texts(warnings).await, NOTHING);
    session.execute(later).await;
    let told = session.texts(warnings).await.join("\n");
    assert!(told.starts_with("responses_never_come: 1 requests await"), "{told}");
    let status = run(&database.url, &["status"]).await;
    assert!(out(&status).contains("kind direct: 1 requests await"), "{}", out(&status));
    session.execute("select tidegate.respond('1', id => id) from tidegate.request").await;
    session.execute(settle).await;
    session.execute(later).await;
    assert_eq!(session.texts(warnings).await, NOTHING);
}
