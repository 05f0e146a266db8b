-- $1 only failed deliveries, $2 rows at most
select
  d.request_id, d.id, d.url, d.state, d.attempt, d.due_at, d.nonce is not null as under_way, d.last_status,
  d.last_error, d.created_at, d.finished_at
from tidegate.webhook_delivery as d
where not $1 or d.state = 'failed'
order by d.request_id desc
limit $2;
