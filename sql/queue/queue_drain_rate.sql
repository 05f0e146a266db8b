-- queue_drain_rate: How many messages per second each queue has drained over the last 10 seconds, minute and 5 minutes.
--
--   queue: The queue.
--   per_second_10s: Messages per second over the last 10 seconds.
--   per_second_1m: Messages per second over the last minute.
--   per_second_5m: Messages per second over the last 5 minutes.
--   last_drained_at: When a message last left; null: not within 5 minutes.
create or replace view tidegate.queue_drain_rate as
select
  q.name as queue,
  round(coalesce(sum(d.drained) filter (where d.at >= clock.now - interval '10 s'), 0) / 10.0, 2) as per_second_10s,
  round(coalesce(sum(d.drained) filter (where d.at >= clock.now - interval '1 minute'), 0) / 60.0, 2) as per_second_1m,
  round(coalesce(sum(d.drained), 0) / 300.0, 2) as per_second_5m,
  max(d.at) filter (where d.drained > 0) as last_drained_at
from (select tidegate.clock() as now) as clock
cross join tidegate.queue as q
left join tidegate.queue_drain as d on d.queue = q.name and d.at > clock.now - interval '5 minutes'
group by q.name;
