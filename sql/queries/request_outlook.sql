-- $1 request id
select
  id, kind, req_status::text as status, place, queue, queue_position,
  extract(epoch from elapsed)::float8 as elapsed_seconds,
  retry_after_seconds, eta_p50_ms, eta_p90_ms, submitted_at, response, error,
  error -> 'last_error' as last_error, submitter,
  exists (select from tidegate.kind as k where k.name = kind and k.key_scope = 'kind') as is_shared,
  case when req_status in ('failure', 'timed_out')
    then (select v.redriven_as from tidegate.redrive as v where v.request_id = id) end as redriven_as
from tidegate.request_outlook($1);
