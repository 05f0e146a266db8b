-- $1 kind, $2 payload, $3 idempotency key, $4 submitter, $5 admission, $6 not before, or else $7 delay in seconds, $8
-- whether the key decides alone
select
  id, outcome, req_status::text as status, queue, queue_position, retry_after_seconds,
  null::bigint as eta_p50_ms, null::bigint as eta_p90_ms
from tidegate.submit($1, $2, $3, $4, $5, coalesce($6, tidegate.clock() + make_interval(secs => $7)), $8);
