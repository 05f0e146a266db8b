-- tidegate.queue_overview: one row a queue: how deep, how much is held, how fast it drains, what limits it
create or replace view tidegate.queue_overview as
select
  q.name as queue, q.stage, q.paused, q.per_seconds, q.burst, q.max_concurrency,
  coalesce(c.depth, 0) as depth,
  coalesce(c.waiting, 0) as waiting,
  coalesce(c.held, 0) as held,
  coalesce(c.depth - c.waiting - c.held, 0) as backing_off,
  d.per_second_10s, d.per_second_1m, d.per_second_5m,
  g.state as gate, g.high_water, g.low_water,
  greatest(interval '0', clock_timestamp() - c.oldest_at) as oldest_age,
  array(select u.kind from tidegate.unserved as u where u.queue = q.name order by u.kind) as unserved
from tidegate.queue as q
join tidegate.queue_drain_rate as d on d.queue = q.name
join tidegate.gate as g on g.queue = q.name
left join tidegate.queue_counts() as c on c.queue = q.name;
