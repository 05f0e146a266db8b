-- settle: $1 queue, $2 tokens, $3 ids, $4 outcomes, $5 errors, $6 waits in milliseconds, $7 whether the downstream may
-- have received each send, $8 references, $9 responses, $10 how long each call took in milliseconds, $11 hedges
select s.id, s.req_status::text as status, case when s.wake then s.queue end as wakes
from tidegate.settle(
  array(select row($1::text, l.token, l.id)::tidegate.lease from unnest($2::bigint[], $3::uuid[]) as l(token, id)),
  $4, $5,
  case when $6::bigint[] is not null then
    array(select make_interval(secs => w.ms / 1000.0) from unnest($6::bigint[]) as w(ms))
  end,
  $7, $8, $9, $10, $11
) as s;

-- effects_begin: $1 how long each statement of this transaction may run, in milliseconds
select pg_current_xact_id()::text from set_config('statement_timeout', $1::bigint::text, true);

-- effects_check
select pg_current_xact_id_if_assigned()::text;
