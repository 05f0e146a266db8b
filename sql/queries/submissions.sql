-- submit: $1 kind, $2 payload, $3 idempotency key, $4 submitter, $5 admission, $6 not before, or else $7 delay in
-- seconds, $8 whether the key decides alone, $9 traceparent
select
  id, outcome, req_status::text as status, queue, queue_position, retry_after_seconds,
  null::bigint as eta_p50_ms, null::bigint as eta_p90_ms
from tidegate.submit(
  $1, $2, $3, $4, $5, coalesce($6, tidegate.clock() + make_interval(secs => $7)), $8, traceparent => $9
);

-- submit_with_callback: as submit; $10 callback URL
select id, outcome, req_status::text as status, queue, queue_position, retry_after_seconds, eta_p50_ms, eta_p90_ms
from tidegate.submit_with_callback(
  $1, $2, $10, $3, $4, $5, coalesce($6, tidegate.clock() + make_interval(secs => $7)), $8, $9
);

-- submit_batch: $1 kind, $2 payloads, $3 idempotency keys, $4 submitter, $5 admission, $6 traceparent
select
  id, outcome, req_status::text as status, queue, queue_position, retry_after_seconds,
  null::bigint as eta_p50_ms, null::bigint as eta_p90_ms
from tidegate.submit_batch($1, $2, $3, $4, $5, $6);

-- submit_group: $1 kind, $2 payloads, $3 idempotency keys, $4 submitters, $5 not before, $6 key patience in ms, $7
-- admission, $8 whether keys decide alone, $9 traceparents, $10 callback URLs
select id, outcome, req_status::text as status, queue, queue_position, retry_after_seconds, eta_p50_ms, eta_p90_ms
from tidegate.submit_group($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- submit_batch_once: $1 kind, $2 payloads, $3 idempotency key of the batch, $4 submitter, $5 admission, $6 traceparent
select
  id, outcome, req_status::text as status, queue, queue_position, retry_after_seconds,
  null::bigint as eta_p50_ms, null::bigint as eta_p90_ms
from tidegate.submit_batch_once($1, $2, $3, $4, $5, $6);
