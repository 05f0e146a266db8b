-- $1 request id
select
  transition_no, at, extract(epoch from after)::float8 as after_seconds, from_status::text as from_status,
  to_status::text as to_status, cause, attempt, worker, detail, remark, finding
from tidegate.audit_replay($1);
