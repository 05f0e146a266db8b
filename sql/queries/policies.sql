-- sli
select
  s.kind, s.stage::text as stage, s.calls / 5.0::float8 as calls_per_minute,
  s.retry_rate::float8 as retry_rate, s.timeout_rate::float8 as timeout_rate,
  s.error_ratio::float8 as error_ratio, s.dup_drop_rate::float8 as dup_drop_rate, s.p50_ms, s.p99_ms, s.slo_p99_ms,
  s.open_ratio::float8 as open_ratio, p.stretch::float8 as stretch, p.congested, p.timeout_ms_in_force as timeout_ms,
  p.w_retry_ms::float8 as w_retry_ms, p.p_ok::float8 as p_ok, p.expected_attempts::float8 as expected_attempts,
  coalesce(b.state, 'none') as breaker,
  coalesce(t.calls, 0) as calls, coalesce(t.failures, 0) as failures, coalesce(t.timeouts, 0) as timeouts,
  coalesce(t.retries, 0) as retries, coalesce(t.hedges, 0) as hedges
from tidegate.sli as s
join tidegate.policy_overview as p on p.kind = s.kind and p.stage = s.stage
left join tidegate.breaker as b on b.kind = s.kind and b.stage = s.stage
left join tidegate.call_total as t on t.kind = s.kind and t.stage = s.stage
order by s.kind, s.stage;

-- estimators
select
  kind, stage::text as stage, state, srtt_ms::float8 as srtt_ms, rttvar_ms::float8 as rttvar_ms,
  srto_ms::float8 as srto_ms, k_margin,
  timeout_ms::float8 as timeout_ms, min_rtt_ms::float8 as min_rtt_ms, usual_rtt_ms::float8 as usual_rtt_ms,
  failure_rate, slo::float8 as slo, load_rps, high_load_rps, high_load_intervals, min_ms, max_ms, interval_ms,
  intervals, processes, in_flight, updated_at
from tidegate.estimator_overview
order by kind, stage;
