-- tidegate.queue_overview: one row a queue: how deep, how much is held, how fast it drains, what limits it
create or replace view tidegate.queue_overview as
select
  q.name as queue, q.stage, q.paused, q.per_seconds, q.burst, q.max_concurrency,
  count(m.msg_id) as depth,
  count(m.msg_id) filter (where m.waiting) as waiting,
  count(m.msg_id) filter (where m.held) as held,
  count(m.msg_id) filter (where not m.waiting and not m.held) as backing_off,
  d.per_second_10s, d.per_second_1m, d.per_second_5m,
  g.state as gate, g.high_water, g.low_water,
  greatest(interval '0', clock_timestamp() - tidegate.queue_oldest_at(q.name)) as oldest_age
from tidegate.queue as q
join tidegate.queue_drain_rate as d on d.queue = q.name
join tidegate.gate as g on g.queue = q.name
left join tidegate.all_messages() as m on m.queue = q.name
group by q.name, d.per_second_10s, d.per_second_1m, d.per_second_5m, g.state, g.high_water, g.low_water;
