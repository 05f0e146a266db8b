-- webhook_claim: $1 batch, $2 how many of it at most for hosts that have not answered
select
  request_id, id, lease_token, url, host_port, coalesce(allow_private, false) as allow_private, secrets,
  attempt, extract(epoch from claimed_at)::bigint as claimed_at,
  lease_ms, timeout_ms, kind, req_status::text as status, response, error, finished_at,
  executed, resolution, event, host_answers, traceparent, coalesce(begins_trace, false) as begins_trace
from tidegate.webhook_claim($1, $2);

-- webhook_settle: $1 request id, $2 lease_token, $3 outcome, $4 status, $5 error, $6 wait in milliseconds
select tidegate.webhook_settle($1, $2, $3, $4, $5, make_interval(secs => $6 / 1000.0));
