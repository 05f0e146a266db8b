//! What breaks an invariant of requests, their history, their keys and what is kept of them.

use super::Seed;

pub(super) const REQUESTS: &[Seed] = &[
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
        "request_passed_over",
        "insert into tidegate.passed_over (request_id, duty, since, retry_at, error)
         select id, 'expire_requests', now(), now(), 'no' from tidegate.request limit 1",
        &[],
    ),
];
