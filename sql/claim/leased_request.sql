-- leased_request: The requests under a lease, whether it is in force or has run out.
--
-- The subquery runs for each id: joined, the planner might walk over all requests.
--
--   id: The request.
--   kind: Its kind.
--   req_status: Its status.
--   queue: The queue that it was claimed from.
--   msg_id: Its number in that queue.
--   token: The token of the claim.
--   worker: The worker that claimed it.
--   claimed_at: When it was claimed.
--   until: When its lease runs out.
--   lease_ms: How long its lease lasts from its claim or last extension.
--   in_force: Whether the lease has not run out.
create or replace view tidegate.leased_request as
select i.id, r.kind, r.req_status, c.queue, r.msg_id, c.token, c.worker, c.claimed_at, c.until, c.lease_ms,
  tidegate.is_held(c.until, c.lease_ms, tidegate.clock()) as in_force
from tidegate.claim as c
cross join lateral unnest(c.ids) as i(id)
cross join lateral (
  select q.kind, q.req_status, q.msg_id, q.lease from tidegate.request as q where q.id = i.id offset 0
) as r
where r.lease = c.token;
