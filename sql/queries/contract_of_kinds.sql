-- The contract that the policies state now, one assertion a row: to keep, and to compare later policies with.
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
