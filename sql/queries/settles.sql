-- settle: $1 queue, $2 tokens, $3 ids, $4 outcomes, $5 errors, $6 waits in milliseconds, $7 whether the downstream may
-- have received each send, $8 references, $9 responses, $10 how long each call took in milliseconds, $11 hedges
select s.id, s.req_status::text as status, case when s.wake then s.queue end as wakes
from tidegate.settle(
  array(select row($1::text, l.token, l.id)::tidegate.lease from unnest($2::bigint[], $3::uuid[]) as l(token, id)),
  array(
    select row(
      o.outcome, o.error, make_interval(secs => o.wait_ms / 1000.0), o.may_have_left, o.reference, o.response,
      o.took_ms, o.hedges
    )::tidegate.call_outcome
    from unnest(
      $4::text[], $5::jsonb[], $6::bigint[], $7::boolean[], $8::text[], $9::jsonb[], $10::integer[], $11::integer[]
    ) as o(outcome, error, wait_ms, may_have_left, reference, response, took_ms, hedges)
  )
) as s;

-- effects_begin: $1 how long each statement of this transaction may run, in milliseconds
select pg_current_xact_id()::text from set_config('statement_timeout', $1::bigint::text, true);

-- effects_check
select pg_current_xact_id_if_assigned()::text;
