-- stuck_request: Live requests that should have moved on by now, with the reason; empty when all is well.
--
-- Reasons: `lease_ran_out` (and no claim has reaped it in ten seconds: no worker takes its queue), `deadline_passed`,
-- `response_overdue` (no process runs maintenance), `waits_too_long` (it waits at the head of its queue for a minute
-- and twice the ETA it was given: the queue is paused or stopped, or no worker takes the kind). `explain(id)` has the
-- details. Reads no more than the live requests that may be stuck: at most 100 messages of a queue, 1,000 overdue
-- responses and 10,000 passed deadlines. A request that has lost its message is found by `tidegate doctor`.
--
--   id: The request.
--   kind: Its kind.
--   req_status: Its status.
--   queue: The queue of its message.
--   worker: The last worker that claimed it.
--   reason: lease_ran_out, deadline_passed, response_overdue or waits_too_long.
--   since: Since when it should have moved on.
--   late: How long ago that was.
create or replace view tidegate.stuck_request as
select r.id, r.kind, r.req_status, r.queue, r.worker, s.reason, s.since, tidegate.clock() - s.since as late
from (
  select l.id, 'lease_ran_out' as reason, l.until as since
  from tidegate.leased_request as l
  where l.until < (select tidegate.clock() - interval '10 seconds')
  union all
  select a.request_id, 'response_overdue', a.due_at
  from (
    select a.request_id, a.due_at
    from tidegate.awaiting_response as a
    where a.due_at < (select tidegate.clock() - interval '10 seconds')
    order by a.due_at
    limit 1000
  ) as a
  union all
  -- Behind the cursors of their duties, all deadlines have been dealt with.
  select d.id, 'deadline_passed', d.deadline_at
  from (
    select q.id, q.deadline_at, q.req_status
    from tidegate.request as q
    where q.deadline_at >= (select m.cursor_at from tidegate.maintenance as m where m.duty = 'expire_by_deadline')
      and q.deadline_at < (select tidegate.clock() - interval '10 seconds')
    order by q.deadline_at
    limit 10000
  ) as d
  where d.req_status in ('queued', 'processing', 'tx_in_flight')
  union all
  select d.id, 'deadline_passed', d.readiness_deadline_at
  from (
    select q.id, q.readiness_deadline_at, q.req_status
    from tidegate.request as q
    where q.readiness_deadline_at >= (
        select m.cursor_at from tidegate.maintenance as m where m.duty = 'expire_by_readiness'
      )
      and q.readiness_deadline_at < (select tidegate.clock() - interval '10 seconds')
    order by q.readiness_deadline_at
    limit 10000
  ) as d
  where d.req_status = 'queued'
  union all
  select w.request_id, 'waits_too_long', e.until
  from tidegate.first_waiting() as w
  cross join lateral (
    select greatest(coalesce(q.processing_at, q.queued_at), w.visible_at)
      + make_interval(mins => 1, secs => 2 * coalesce(q.eta_seconds, 0)::double precision) as until
    from tidegate.request as q
    where q.id = w.request_id and q.queue = w.queue and q.msg_id = w.msg_id
    offset 0
  ) as e
  where e.until < tidegate.clock()
) as s
cross join lateral (select q.* from tidegate.request as q where q.id = s.id offset 0) as r;
