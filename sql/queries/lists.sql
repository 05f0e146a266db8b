-- list_requests: $1 kind or null, $2 statuses or null, $3 since, $4 before, $5 submitter or null, $6 rows, $7 queue or
-- null, $8 until, $9 cause or code, $10 executed, $11 sends
select
  l.id, r.kind, l.req_status::text as status, r.queue, l.submitted_by, l.submitted_at, l.finished_at,
  r.error ->> 'code' as code, l.next_before
from tidegate.list_requests($1, $2::tidegate.request_status[], $3, $4, $5, $6, queue => $7, until => $8, cause => $9,
  executed => $10, attempts => $11) as l
left join tidegate.request as r on r.id = l.id
order by l.id desc;

-- first_waiting: $1 requests at most, $2 queue or null
select
  r.id, r.kind, r.req_status::text as status, r.queue, r.submitter as submitted_by, r.submitted_at, r.finished_at,
  null::text as code,
  -- A message that came without a delay has been visible since -infinity.
  greatest(coalesce(r.processing_at, r.queued_at), w.visible_at) as waiting_since
from tidegate.first_waiting($1, $2) as w
join tidegate.request as r on r.id = w.request_id and r.queue = w.queue and r.msg_id = w.msg_id
order by waiting_since, r.id
limit $1;

-- submitter_counts: $1 queue or null, $2 rows at most
select queue, submitter, requests, waiting, held, oldest_at, high_water from tidegate.submitter_counts($1, $2);
