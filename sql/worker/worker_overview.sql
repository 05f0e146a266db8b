-- worker_overview: Every worker: whether it is alive, and how much it holds.
create or replace view tidegate.worker_overview as
select
  w.name, w.stages, w.queues, w.started_at, w.last_seen_at, w.stopped_at,
  w.stopped_at is null and w.last_seen_at > tidegate.clock() - interval '30 seconds' as alive,
  coalesce(h.held, 0) as held, w.kinds
from tidegate.worker as w
left join tidegate.held_by() as h on h.holder = w.name;
comment on column tidegate.worker_overview.name is 'The worker.';
comment on column tidegate.worker_overview.stages is 'The stages it runs.';
comment on column tidegate.worker_overview.queues is 'The queues it drains.';
comment on column tidegate.worker_overview.started_at is 'When it was first seen.';
comment on column tidegate.worker_overview.last_seen_at is 'When it was last seen.';
comment on column tidegate.worker_overview.stopped_at is 'When it reported that it is stopping.';
comment on column tidegate.worker_overview.alive is 'Whether it was seen in the last 30 seconds and is not stopping.';
comment on column tidegate.worker_overview.held is 'How many requests it holds.';
comment on column tidegate.worker_overview.kinds is 'The kinds that it has a stage for; null: all.';
