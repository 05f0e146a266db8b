-- $1 kind, $2 payloads, $3 idempotency keys, $4 submitter
select id, outcome, req_status::text as status, queue, queue_position, retry_after_seconds
from tidegate.submit_group($1, $2, $3, $4);
