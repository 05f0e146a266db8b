//! Invariants of a database at rest, read without the engine's functions.

use sqlx::PgConnection;

use super::sql::column;

/// Every broken invariant, in words; none when all is well. Not for databases with hand-edited statuses.
pub async fn violations(session: &mut PgConnection) -> Vec<String> {
    let mut found = history_violations(session).await;
    found.extend(
        column(
            session,
            "with message as (
               select 'readiness' as queue, msg_id, message ->> 'id' as id, false as held from pgmq.q_readiness
               union all select 'tx', msg_id, message ->> 'id', false from pgmq.q_tx
               union all
               select c.queue, r.msg_id, r.id::text, true
               from tidegate.claim as c cross join unnest(c.ids) as i(id)
               join tidegate.request as r on r.id = i.id and r.lease = c.token
             )
             select format('%s is %s and has %s messages', r.id, r.req_status, count(m.id))
             from tidegate.request as r
             left join message as m on m.id = r.id::text and m.queue = r.queue and m.msg_id = r.msg_id
               and m.queue = case when r.req_status = 'queued' then 'readiness' else 'tx' end
             group by r.id
             having count(m.id) <> (r.req_status in ('queued', 'processing', 'tx_in_flight'))::integer
             union all
             select format('message %s of %s has no live request', m.msg_id, m.queue)
             from message as m
             where not exists (
               select from tidegate.request as r
               where r.id::text = m.id and r.queue = m.queue and r.msg_id = m.msg_id
                 and r.req_status in ('queued', 'processing', 'tx_in_flight')
             )
             union all
             select format('%s is %s and still names message %s', id, req_status, msg_id) from tidegate.request
             where req_status not in ('queued', 'processing', 'tx_in_flight') and (queue is not null or msg_id is not null)
             union all
             select format('%s is processing and its message is held', r.id)
             from tidegate.request as r join message as m on m.id = r.id::text
             where r.req_status = 'processing' and m.held",
        )
        .await,
    );
    found
}

/// Broken invariants of the history, of the counts and of statuses; hand edits allowed.
pub async fn history_violations(session: &mut PgConnection) -> Vec<String> {
    column(
        session,
        "with step as (
           select e.*, lag(e.to_status) over life as came_from, lag(e.at) over life as came_at,
             row_number() over life as place, count(*) over (partition by e.request_id) as places
           from tidegate.request_event as e
           window life as (partition by e.request_id order by e.transition_no)
         )
         select format('%s: event %s is numbered %s', request_id, place, transition_no) from step where transition_no <> place
         union all
         select format('%s: event %s starts from %s after %s', request_id, place, from_status, came_from) from step
         where from_status is distinct from came_from
         union all
         select format('%s: event %s is older than the one before', request_id, place) from step where at < came_at
         union all
         select format('%s: event %s, %s to %s by %s, is not listed', s.request_id, place, s.from_status, s.to_status, s.cause)
         from step as s join tidegate.request as r on r.id = s.request_id
         where not exists (
           select from tidegate.transition_rule as t
           where t.flow = r.flow and t.from_status is not distinct from s.from_status and t.to_status = s.to_status
             and (t.cause = s.cause or s.cause = 'hand_edit')
         )
         union all
         select format('%s is %s (%s by %s), its last event says %s (%s by %s)', r.id, r.req_status, r.transition_no, r.cause,
           s.to_status, s.transition_no, s.cause)
         from tidegate.request as r
         left join step as s on s.request_id = r.id and s.place = s.places
         where (r.req_status, r.transition_no, r.cause) is distinct from (s.to_status, s.transition_no, s.cause)
         union all
         select format('%s %s: %s counted, %s are there', kind, req_status, counted.requests, real.requests)
         from tidegate.request_overview as counted
         full join (select kind, req_status, count(*) as requests from tidegate.request group by kind, req_status) as real
           using (kind, req_status)
         where counted.requests is distinct from real.requests
         union all
         select format('%s is %s, awaited: %s', r.id, r.req_status, a.request_id is not null)
         from tidegate.request as r left join tidegate.awaiting_response as a on a.request_id = r.id
         where (r.req_status = 'receipt_received') <> (a.request_id is not null)
         union all
         select format('%s has a time for %s: %s', r.id, s.status, s.at)
         from tidegate.request as r
         cross join lateral (values ('queued', queued_at), ('processing', processing_at), ('tx_in_flight', tx_in_flight_at),
           ('receipt_received', receipt_received_at), ('finished', finished_at)) as s(status, at)
         where (s.at is not null) <> exists (
           select from tidegate.request_event as e
           where e.request_id = r.id
             and (e.to_status::text = s.status or (s.status = 'finished' and e.to_status in ('completed', 'timed_out', 'failure')))
         )",
    )
    .await
}
