-- $1 kind, $2 payload, $3 callback URL, $4 idempotency key, $5 submitter, $6 admission, $7 not before, $8
-- whether the key decides alone
select id, outcome, req_status::text as status, queue, queue_position, retry_after_seconds, eta_p50_ms, eta_p90_ms
from tidegate.submit_with_callback($1, $2, $3, $4, $5, $6, $7, $8);
