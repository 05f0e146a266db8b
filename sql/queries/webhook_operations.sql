-- webhook_counts: 100,000 of each at most: a receiver that has been away for a week must not make this slow.
select
  count(*) filter (where o.state = 'pending' and not o.under_way) as waiting,
  count(*) filter (where o.under_way) as under_way,
  count(*) filter (where o.state = 'failed') as failed,
  coalesce(extract(epoch from tidegate.clock() - min(o.created_at) filter (where o.state = 'pending')), 0)::float8
    as oldest_seconds
from (
  (select d.state, d.lease_token is not null as under_way, d.created_at from tidegate.webhook_delivery as d
   where d.state = 'pending' limit 100000)
  union all
  (select d.state, false, d.created_at from tidegate.webhook_delivery as d where d.state = 'failed' limit 100000)
) as o;

-- set_kind_callback: $1 kind, $2 URL or null
select tidegate.set_kind_callback($1, $2);

-- webhook_hosts
select h.host, h.allow_private, h.created_at, h.created_by from tidegate.webhook_host as h order by h.host;

-- webhook_host_add: $1 host, $2 whether it may have private addresses
select tidegate.webhook_host_add($1, $2);

-- webhook_host_remove: $1 host
select tidegate.webhook_host_remove($1);

-- webhook_secret_list: The secrets that sign: none of them is shown again.
select s.id, s.host, s.created_at, s.expires_at
from tidegate.webhook_secret as s
where s.expires_at is null or s.expires_at > tidegate.clock()
order by s.host nulls first, s.id;

-- webhook_secret_rotate: $1 host or null, $2 overlap in seconds
select id, secret from tidegate.webhook_secret_rotate($1, make_interval(secs => $2));

-- webhook_list: $1 only failed deliveries, $2 rows at most
select
  d.request_id, d.id, d.url, d.state, d.attempt, d.due_at, d.lease_token is not null as under_way, d.last_status,
  d.last_error, d.created_at, d.finished_at
from tidegate.webhook_delivery as d
where not $1 or d.state = 'failed'
order by d.request_id desc
limit $2;

-- webhook_redeliver: $1 request id
select tidegate.webhook_redeliver($1);

-- redeliver_failed: $1 batch, $2 after
select redelivered, next_after from tidegate.webhook_redeliver_failed($1, $2);
