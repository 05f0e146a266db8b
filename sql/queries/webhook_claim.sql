-- $1 batch, $2 how many of it at most for hosts that have not answered
select
  request_id, id, nonce, url, host_port, coalesce(allow_private, false) as allow_private, secrets,
  attempt, extract(epoch from claimed_at)::bigint as claimed_at,
  lease_ms, timeout_ms, kind, req_status::text as status, response, error, finished_at,
  executed, resolution, event, host_answers
from tidegate.webhook_claim($1, $2);
