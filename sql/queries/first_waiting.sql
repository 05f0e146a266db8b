-- $1 requests at most, $2 queue or null
select
  r.id, r.kind, r.req_status::text as status, r.queue, r.submitter as submitted_by, r.submitted_at, r.finished_at,
  null::text as code,
  -- A message that came without a delay has been visible since -infinity.
  greatest(coalesce(r.processing_at, r.queued_at), w.visible_at) as waiting_since
from tidegate.first_waiting($1, $2) as w
join tidegate.request as r on r.id = w.request_id and r.queue = w.queue and r.msg_id = w.msg_id
order by waiting_since, r.id
limit $1;
