//! What breaks an invariant of queues, their messages and their leases.

use super::Seed;

pub(super) const QUEUES: &[Seed] = &[
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
        "ended_request_that_names_a_message",
        "update tidegate.request set queue = 'tx' where req_status = 'completed'",
        &[],
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
];
