-- $1 request id
select
  id, kind, req_status::text as status, place, queue, queue_position,
  extract(epoch from elapsed)::float8 as elapsed_seconds, retry_after_seconds, submitted_at, response, error, submitter
from tidegate.request_outlook($1);
