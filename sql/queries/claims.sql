-- claim_readiness: $1 queue, $2 worker, $3 batch, $4 lease in milliseconds, $5 kinds; read in this order
select
  (lease).token, id, kind, payload, attempt, attempts_max, deadline_at, submitter, send_id, traceparent,
  connect_ms, first_byte_ms, body_ms,
  case when paced then (extract(epoch from claimed_at) * 1000000)::bigint end as reserved_at_us,
  case when paced then (extract(epoch from send_at - claimed_at) * 1000000)::bigint end as send_in_us,
  timeout_ms, hedge_after_ms, hedge_max, hedge_share::float8, probe, policy_version, adaptive, begins_trace
from tidegate.claim_readiness($1, $2, $3, make_interval(secs => $4 / 1000.0), $5);

-- claim_tx: $1 queue, $2 worker, $3 batch, $4 lease in milliseconds, $5 kinds; read in this order
select
  (lease).token, id, kind, payload, attempt, attempts_max, deadline_at, submitter, send_id, traceparent,
  connect_ms, first_byte_ms, body_ms,
  case when paced then (extract(epoch from claimed_at) * 1000000)::bigint end as reserved_at_us,
  case when paced then (extract(epoch from send_at - claimed_at) * 1000000)::bigint end as send_in_us,
  timeout_ms, hedge_after_ms, hedge_max, hedge_share::float8, probe, policy_version, adaptive, begins_trace
from tidegate.claim_tx($1, $2, $3, make_interval(secs => $4 / 1000.0), $5);

-- claim_wait_ms: $1 queue, $2 kinds
select tidegate.claim_wait_ms($1, $2);

-- reserve_send: $1 queue
select
  (extract(epoch from reserved_at) * 1000000)::bigint as reserved_at_us,
  (extract(epoch from send_in) * 1000000)::bigint as send_in_us, wait_ms
from tidegate.reserve_send($1);

-- wake: $1 queue
select tidegate.wake($1);
