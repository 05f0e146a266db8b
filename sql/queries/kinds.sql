-- $1 the name of a kind, or null for all
select
  k.name, k.flow::text as flow, k.readiness_queue, k.tx_queue, k.response_threshold,
  t.per_seconds::float8 as per_seconds, r.max_concurrency, k.paused
from tidegate.kind as k
join tidegate.queue as t on t.name = k.tx_queue
left join tidegate.queue as r on r.name = k.readiness_queue
where k.name = coalesce($1, k.name)
order by k.name;
