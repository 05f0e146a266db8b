-- worker_overview: Every worker: whether it is alive, and how much it holds.
--
--   name: The worker.
--   stages: The stages it runs.
--   queues: The queues it drains.
--   started_at: When it was first seen.
--   last_seen_at: When it was last seen.
--   stopped_at: When it reported that it is stopping.
--   alive: Whether it was seen in the last 30 seconds and is not stopping.
--   held: How many requests it holds.
--   kinds: The kinds that it has a stage for; null: all.
create or replace view tidegate.worker_overview as
select
  w.name, w.stages, w.queues, w.started_at, w.last_seen_at, w.stopped_at,
  w.stopped_at is null and w.last_seen_at > tidegate.clock() - interval '30 seconds' as alive,
  coalesce(h.held, 0) as held, w.kinds
from tidegate.worker as w
left join (
  select l.worker, count(*) as held from tidegate.leased_request as l where l.in_force group by l.worker
) as h on h.worker = w.name;
