-- kind_add: $1 kind, $2 flow, $3 tx queue or null, $4 readiness queue or null, $5 threshold, $6 rate or null, $7
-- concurrency or null, $8 high mark, $9 low mark or null, $10 actor, $11 scope of keys, $12 seconds of an answer or
-- null
select subject, name, value
from tidegate.kind_add($1, $2, $3, $4, $5, $6::float8::numeric, $7, $8, $9, $10, $11, make_interval(secs => $12));

-- kinds: $1 the name of a kind, or null for all
select
  k.name, k.flow::text as flow, k.readiness_queue, k.tx_queue, k.response_threshold,
  t.per_seconds::float8 as per_seconds, r.max_concurrency, k.paused
from tidegate.kind as k
join tidegate.queue as t on t.name = k.tx_queue
left join tidegate.queue as r on r.name = k.readiness_queue
where k.name = coalesce($1, k.name)
order by k.name;

-- kind_remove: $1 kind, $2 drain, $3 requests, $4 queues, $5 actor
select removed, live, ended, queues_removed, queues_kept from tidegate.kind_remove($1, $2, $3, $4, actor => $5);

-- queue_add: $1 queue, $2 stage, $3 sends per second, $4 checks at once, $5 high mark, $6 low mark, $7 actor,
-- $8 submitter or kind for a fair queue, or null
select subject, name, value from tidegate.queue_add($1, $2, $3::float8::numeric, $4, $5, $6, $7, $8);

-- queue_remove: $1 queue, $2 actor
select tidegate.queue_remove($1, $2);
