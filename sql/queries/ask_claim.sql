-- $1 kinds, $2 batch
select
  id, send_id, kind, payload, submitter, attempt, deadline_at, connect_ms, first_byte_ms, body_ms, timeout_ms, reference
from tidegate.ask_claim($1, $2);
