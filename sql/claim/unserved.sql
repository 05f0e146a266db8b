-- unserved: Kinds whose requests wait in a queue from which no live worker takes them.
--
-- `has_workers`: others do take requests of other kinds there. A worker that does not call `worker_seen` is not seen
-- here.
--
--   queue: The queue.
--   stage: The stage it serves.
--   kind: The kind.
--   requests: How many of its requests wait or are snoozed.
--   has_workers: Whether live workers claim requests of other kinds there.
create or replace view tidegate.unserved as
select q.name as queue, q.stage, k.name as kind, c.requests, w.has_workers
from tidegate.queue as q
join tidegate.kind as k on q.name = case q.stage when 'tx' then k.tx_queue else k.readiness_queue end
join tidegate.request_overview as c
  on c.kind = k.name
    and c.req_status = case q.stage when 'tx' then 'processing' else 'queued' end::tidegate.request_status
cross join lateral (
  select count(*) > 0 as has_workers, coalesce(bool_or(v.kinds is null or k.name = any(v.kinds)), false) as takes_kind
  from tidegate.worker as v
  where v.stopped_at is null and v.last_seen_at > tidegate.clock() - interval '30 s' and q.name = any(v.queues)
) as w
where not w.takes_kind;
