-- $1 kind or null, $2 the latest end of a lease or null
select
  l.queue, l.worker, count(*) as requests, max(l.until) as until,
  ceil(greatest(extract(epoch from max(l.until) - tidegate.clock()), 0))::bigint as seconds
from tidegate.leased_request as l
where l.in_force and l.req_status = 'tx_in_flight' and ($1::text is null or l.kind = $1)
  and ($2::timestamptz is null or l.until <= $2)
group by l.queue, l.worker
order by until desc, l.queue, l.worker;
