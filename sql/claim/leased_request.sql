-- leased_request: The requests under a lease, whether it is in force or has run out.
--
-- The subquery is looked up for each id: joined, the planner might walk over all requests.
create or replace view tidegate.leased_request as
select i.id, r.req_status, c.queue, r.msg_id, c.token, c.worker, c.claimed_at, c.until, c.lease_ms,
  tidegate.is_held(c.until, c.lease_ms, tidegate.clock()) as in_force
from tidegate.claim as c
cross join lateral unnest(c.ids) as i(id)
cross join lateral (select q.req_status, q.msg_id, q.lease from tidegate.request as q where q.id = i.id offset 0) as r
where r.lease = c.token;
comment on column tidegate.leased_request.id is 'The request.';
comment on column tidegate.leased_request.req_status is 'Its status.';
comment on column tidegate.leased_request.queue is 'The queue that it was claimed from.';
comment on column tidegate.leased_request.msg_id is 'Its number in that queue.';
comment on column tidegate.leased_request.token is 'The token of the claim.';
comment on column tidegate.leased_request.worker is 'The worker that claimed it.';
comment on column tidegate.leased_request.claimed_at is 'When it was claimed.';
comment on column tidegate.leased_request.until is 'When its lease runs out.';
comment on column tidegate.leased_request.lease_ms is 'How long its lease lasts from its claim or last extension.';
comment on column tidegate.leased_request.in_force is 'Whether the lease has not run out.';
