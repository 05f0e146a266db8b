select
  queue, stage::text as stage, paused, per_seconds::float8 as per_seconds, max_concurrency, depth, waiting, held,
  backing_off, per_second_10s::float8 as per_second_10s, per_second_1m::float8 as per_second_1m,
  per_second_5m::float8 as per_second_5m, gate, high_water, low_water,
  extract(epoch from oldest_age)::float8 as oldest_seconds, unserved
from tidegate.queue_overview
order by stage, queue;
