-- request_eta: Every request, ended ones too, with its place and Retry-After. A query by id costs as much as a poll, a
-- query of all requests one poll per live request.
create or replace view tidegate.request_eta as
select r.id, r.kind, r.req_status, r.queue, o.position, o.elapsed, o.retry_after_seconds, o.place
from tidegate.request as r
cross join lateral (
  select null::bigint as position, greatest(interval '0', tidegate.clock() - r.finished_at) as elapsed,
    0 as retry_after_seconds, 'finished' as place
  where r.req_status not in ('queued', 'processing', 'tx_in_flight', 'receipt_received')
  union all
  select o.queue_position, o.elapsed, o.retry_after_seconds, o.place
  from tidegate.request_outlook(r.id) as o
  where r.req_status in ('queued', 'processing', 'tx_in_flight', 'receipt_received')
) as o;
comment on column tidegate.request_eta.id is 'The request.';
comment on column tidegate.request_eta.kind is 'Its kind.';
comment on column tidegate.request_eta.req_status is 'Its status.';
comment on column tidegate.request_eta.queue is 'The queue of its message, if it has one.';
comment on column tidegate.request_eta.position is 'Waiting messages before it; 0: next or held; null: in no queue.';
comment on column tidegate.request_eta.elapsed is 'How long it has been in its status.';
comment on column tidegate.request_eta.retry_after_seconds is 'In how many seconds to ask again; 0: it has ended.';
comment on column tidegate.request_eta.place is 'readiness_queue, checking, tx_queue, tx_in_flight, … or finished.';
