-- request_eta: Every request, ended ones too, with its place and Retry-After. A query by id costs as much as a poll, a
-- query of all requests one poll per live request.
--
--   id: The request.
--   kind: Its kind.
--   req_status: Its status.
--   queue: The queue of its message, if it has one.
--   position: Waiting messages before it; 0: next or held; null: in no queue.
--   elapsed: How long it has been in its status.
--   retry_after_seconds: In how many seconds to ask again; 0: it has ended.
--   place: readiness_queue, checking, tx_queue, tx_in_flight, … or finished.
create or replace view tidegate.request_eta as
select r.id, r.kind, r.req_status, r.queue, o.position, o.elapsed, o.retry_after_seconds, o.place
from tidegate.request as r
cross join lateral (
  select null::bigint as position, greatest(interval '0', tidegate.clock() - r.finished_at) as elapsed,
    0 as retry_after_seconds, 'finished' as place
  where r.req_status not in ('queued', 'processing', 'tx_in_flight', 'receipt_received')
  union all
  select o.queue_position, o.elapsed, o.retry_after_seconds, o.place
  from tidegate.request_outlooks(array[r.id]) as o
  where r.req_status in ('queued', 'processing', 'tx_in_flight', 'receipt_received')
) as o;
