-- $1 kind, $2 payloads, $3 idempotency keys, $4 submitter, $5 admission
select
  id, outcome, req_status::text as status, queue, queue_position, retry_after_seconds,
  null::bigint as eta_p50_ms, null::bigint as eta_p90_ms
from tidegate.submit_batch($1, $2, $3, $4, $5);
