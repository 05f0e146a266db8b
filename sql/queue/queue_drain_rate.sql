-- queue_drain_rate: Messages served per second over the last 10 s, minute and 5 minutes, per queue.
--
-- By window functions over the append-only drains; an empty drain at this moment makes the windows end now.
create or replace view tidegate.queue_drain_rate as
with drain as (
  select d.queue, d.at, d.drained from tidegate.queue_drain as d where d.at > tidegate.clock() - interval '5 minutes'
  union all
  select q.name, tidegate.clock(), 0 from tidegate.queue as q
), windowed as (
  select
    d.queue, d.at,
    sum(d.drained) over (
      partition by d.queue order by d.at range between interval '10 seconds' preceding and current row
    ) as drained_10s,
    sum(d.drained) over (
      partition by d.queue order by d.at range between interval '1 minute' preceding and current row
    ) as drained_1m,
    sum(d.drained) over (
      partition by d.queue order by d.at range between interval '5 minutes' preceding and current row
    ) as drained_5m,
    max(d.at) filter (where d.drained > 0) over (partition by d.queue) as last_drained_at
  from drain as d
)
select distinct on (w.queue)
  w.queue,
  round(w.drained_10s / 10.0, 2) as per_second_10s,
  round(w.drained_1m / 60.0, 2) as per_second_1m,
  round(w.drained_5m / 300.0, 2) as per_second_5m,
  w.last_drained_at
from windowed as w
join tidegate.queue as q on q.name = w.queue
order by w.queue, w.at desc;
comment on column tidegate.queue_drain_rate.queue is 'The queue.';
comment on column tidegate.queue_drain_rate.per_second_10s is 'Messages per second over the last 10 seconds.';
comment on column tidegate.queue_drain_rate.per_second_1m is 'Messages per second over the last minute.';
comment on column tidegate.queue_drain_rate.per_second_5m is 'Messages per second over the last 5 minutes.';
comment on column tidegate.queue_drain_rate.last_drained_at is
  'When a message was last served; null: not within 5 minutes.';
