-- $1 kind, $2 payload, $3 idempotency key, $4 submitter, $5 admission, $6 not before
select
  id, outcome, req_status::text as status, queue, queue_position, retry_after_seconds,
  case outcome
    when 'refused' then tidegate.spread_seconds(retry_after_seconds, (
      select least(retry_after_seconds * (1 + s.jitter), greatest(retry_after_seconds, s.max_seconds)) from tidegate.setting as s
    ))
    else retry_after_seconds
  end as spread_seconds,
  null::bigint as eta_p50_ms, null::bigint as eta_p90_ms
from tidegate.submit($1, $2, $3, $4, $5, $6);
