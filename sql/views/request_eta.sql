-- tidegate.request_eta: where each request stands and when to ask for it again; 0 for finished ones
--
-- Each live request is asked for by itself, as by a poll: one by its id costs a poll, all of them one each.
create or replace view tidegate.request_eta as
select r.id, r.kind, r.req_status, r.queue, o.position, o.elapsed, o.retry_after_seconds, o.place
from tidegate.request as r
cross join lateral (
  select null::bigint as position, greatest(interval '0', clock_timestamp() - r.finished_at) as elapsed,
    0 as retry_after_seconds, 'finished' as place
  where r.req_status not in ('queued', 'processing', 'tx_in_flight', 'receipt_received')
  union all
  select o.queue_position, o.elapsed, o.retry_after_seconds, o.place
  from tidegate.request_outlook(r.id) as o
  where r.req_status in ('queued', 'processing', 'tx_in_flight', 'receipt_received')
) as o;
