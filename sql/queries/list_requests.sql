-- $1 kind or null, $2 statuses or null, $3 since, $4 before, $5 submitter or null, $6 rows, $7 queue or null, $8 until
select
  l.id, r.kind, l.req_status::text as status, r.queue, l.submitted_by, l.submitted_at, l.finished_at,
  r.error ->> 'code' as code, l.next_before
from tidegate.list_requests($1, $2::tidegate.request_status[], $3, $4, $5, $6, queue => $7, until => $8) as l
left join tidegate.request as r on r.id = l.id
order by l.id desc;
