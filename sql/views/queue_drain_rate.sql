-- tidegate.queue_drain_rate: messages served per second over the last 10 s, minute and 5 minutes, per queue
--
-- By window functions over the append-only drains; the row of the latest drain holds the windows that end there,
-- shifted to now.
create or replace view tidegate.queue_drain_rate as
select
  q.name as queue,
  round(coalesce(sum(d.drained) filter (where d.at > clock_timestamp() - interval '10 seconds'), 0) / 10.0, 2) as per_second_10s,
  round(coalesce(sum(d.drained) filter (where d.at > clock_timestamp() - interval '1 minute'), 0) / 60.0, 2) as per_second_1m,
  round(coalesce(sum(d.drained) filter (where d.at > clock_timestamp() - interval '5 minutes'), 0) / 300.0, 2) as per_second_5m,
  max(d.at) as last_drained_at
from tidegate.queue as q
left join tidegate.queue_drain as d on d.queue = q.name and d.at > clock_timestamp() - interval '5 minutes'
group by q.name;
