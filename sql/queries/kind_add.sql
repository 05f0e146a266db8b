-- $1 kind, $2 flow, $3 tx queue or null, $4 readiness queue or null, $5 threshold, $6 rate or null, $7 concurrency or
-- null, $8 high mark, $9 low mark or null, $10 actor, $11 scope of keys, $12 seconds of an answer
-- or null
select subject, name, value
from tidegate.kind_add($1, $2, $3, $4, $5, $6::float8::numeric, $7, $8, $9, $10, $11, make_interval(secs => $12));
