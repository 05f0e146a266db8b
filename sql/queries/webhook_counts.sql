-- 100,000 of each at most: a receiver that has been away for a week must not make this slow.
select
  count(*) filter (where o.state = 'pending' and not o.under_way) as waiting,
  count(*) filter (where o.under_way) as under_way,
  count(*) filter (where o.state = 'failed') as failed,
  coalesce(extract(epoch from tidegate.clock() - min(o.created_at) filter (where o.state = 'pending')), 0)::float8
    as oldest_seconds
from (
  (select d.state, d.nonce is not null as under_way, d.created_at from tidegate.webhook_delivery as d
   where d.state = 'pending' limit 100000)
  union all
  (select d.state, false, d.created_at from tidegate.webhook_delivery as d where d.state = 'failed' limit 100000)
) as o;
