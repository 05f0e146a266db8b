-- $1 kinds, $2 batch of each
select
  id, send_id, kind, payload, submitter, attempt, deadline_at, connect_ms, first_byte_ms, body_ms, timeout_ms
from tidegate.search_claim($1, $2);
