-- contract_of_kinds: The contract that the policies state now, one assertion a row: to keep, and to compare later
-- policies with.
select replace(a.assertion::text, '" : ', '": ') as assertion
from tidegate.policy as p
join tidegate.kind as k on k.name = p.kind
cross join lateral (
  values
    (1, json_build_object('type', 'timeout_upper_bound', 'kind', p.kind, 'stage', p.stage,
      'W_retry_le', p.deadline_ms - p.margin_ms)),
    (2, json_build_object('type', 'retry_success_prob', 'kind', p.kind, 'stage', p.stage, 'p_ok_ge', 0.95)),
    (3, case p.stage when 'tx' then json_build_object('type', 'idempotency', 'kind', p.kind, 'stage', p.stage,
      'key_stability', true, 'window', extract(epoch from p.dedup_window) || ' s') end),
    (4, case p.stage when 'tx' then json_build_object('type', 'dedup_window', 'kind', p.kind, 'stage', p.stage,
      'span_reorder_le', extract(epoch from p.dedup_window) || ' s') end),
    (5, case p.stage when 'tx' then json_build_object('type', 'semantics', 'kind', p.kind, 'stage', p.stage,
      'sem', p.semantics, 'no_side_effect_dup', true) end),
    (6, case p.stage
      when 'tx' then json_build_object('type', 'sli', 'kind', p.kind, 'stage', p.stage,
        'dup_drop_rate_le', 0.01, 'p99_ms_le', 'slo_p99_ms')
      else json_build_object('type', 'sli', 'kind', p.kind, 'stage', p.stage,
        'timeout_rate_le', 0.005, 'p99_ms_le', 'slo_p99_ms') end)
) as a(place, assertion)
where a.assertion is not null and (p.stage = 'tx' or k.readiness_queue is not null)
order by k.name, p.stage desc, a.place;

-- contract_check: $1 the assertions, a JSON array as text
select
  place, kind, stage::text as stage, type, member, holds, observed, bound, value::float8 as value,
  round(baseline, 6)::float8 as baseline, detail
from tidegate.contract_check($1::text::jsonb);

-- contract_record: $1 the assertions, a JSON array as text, $2 actor
select
  place, kind, stage::text as stage, type, member, holds, observed, bound, value::float8 as value,
  round(baseline, 6)::float8 as baseline, detail
from tidegate.contract_record($1::text::jsonb, $2);

-- audit_lives: $1 kind or null, $2 since or null, $3 after or null, $4 batch
select examined, ended, wrong, next_after from tidegate.audit_lives($1, $2, $3, $4);

-- audit_replay: $1 request id
select
  transition_no, at, extract(epoch from after)::float8 as after_seconds, from_status::text as from_status,
  to_status::text as to_status, cause, attempt, worker, detail, remark, finding
from tidegate.audit_replay($1);

-- invariants: no parameters
select name, rule, query, by_request from tidegate.invariant order by place;

-- configuration_warnings: no parameters
select name, subject, message from tidegate.configuration_warning;

-- statement_timeout: $1 how long a statement of this transaction may take
select set_config('statement_timeout', $1, true);

-- check_invariants: $1 names, $2 from, $3 before
select name, violations, samples from tidegate.check_invariants($1, $2, $3);

-- invariant_slice: $1 before, $2 span, in milliseconds
select id_from, requests from tidegate.invariant_slice($1, $2 * interval '1 millisecond');
