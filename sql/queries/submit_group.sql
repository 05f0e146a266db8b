-- $1 kind, $2 payloads, $3 idempotency keys, $4 submitters, $5 not before, $6 key patience in ms, $7 admission, $8
-- whether keys decide alone
select id, outcome, req_status::text as status, queue, queue_position, retry_after_seconds, eta_p50_ms, eta_p90_ms
from tidegate.submit_group($1, $2, $3, $4, $5, $6, $7, $8);
