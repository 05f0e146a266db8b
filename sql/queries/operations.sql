-- initialise: $1 name of an example, or null, $2 name of gates, or null
select subject, name, value from tidegate.initialise($1, $2);

-- request_overview
select kind, req_status::text as status, requests from tidegate.request_overview order by kind, req_status;

-- queue_overview
select
  queue, stage::text as stage, fair_by, paused, per_seconds::float8 as per_seconds, max_concurrency, depth, waiting,
  held, backing_off, per_second_10s::float8 as per_second_10s, per_second_1m::float8 as per_second_1m,
  per_second_5m::float8 as per_second_5m, gate, high_water, low_water,
  extract(epoch from oldest_age)::float8 as oldest_seconds, unserved
from tidegate.queue_overview
order by stage, queue;

-- maintenance_overview
select
  duty, extract(epoch from overdue)::float8 as overdue_seconds, error, passed_over, passed_over_request,
  passed_over_error
from tidegate.maintenance_overview
order by duty;

-- expired_responses
select expired from tidegate.inbox_total;

-- worker_overview
select name, stages, queues, started_at, last_seen_at, stopped_at, alive, held from tidegate.worker_overview
  order by name;

-- queue_kinds: $1 queue: its stage, and the kinds that use it, with whether their policy says exactly_once
select q.stage::text as stage, k.name as kind, p.semantics = 'exactly_once' as exactly_once
from tidegate.queue as q
left join tidegate.kind as k on q.name = case q.stage when 'tx' then k.tx_queue else k.readiness_queue end
left join tidegate.policy as p on p.kind = k.name and p.stage = q.stage
where q.name = $1
order by k.name;

-- worker_seen: $1 name, $2 stages, $3 queues, $4 stopping, $5 kinds
select tidegate.worker_seen($1, $2, $3, $4, $5);

-- pause: $1 queue or null, $2 paused, $3 actor, $4 kind or null
select tidegate.pause($1, $2, $3, $4);

-- maintain
call tidegate.maintain();
