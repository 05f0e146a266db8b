-- tidegate.worker_overview: who is alive, and how many messages each holds
create or replace view tidegate.worker_overview as
select
  w.name, w.stages, w.queues, w.started_at, w.last_seen_at, w.stopped_at,
  w.stopped_at is null and w.last_seen_at > clock_timestamp() - interval '30 seconds' as alive,
  coalesce(h.held, 0) as held, w.kinds
from tidegate.worker as w
left join (
  select b.holder, sum(b.held)::bigint as held from tidegate.held_by() as b group by b.holder
) as h on h.holder = w.name;
