-- tidegate.estimator_overview: every adaptive timeout, as all processes share it; one row a policy in adaptive mode
--
-- Before anything was folded there is no estimator: the timeout is the longest, and no time is known.
create or replace view tidegate.estimator_overview as
select
  p.kind, p.stage, coalesce(e.state, 'normal') as state,
  round(e.srtt_ns / 1000000.0, 3) as srtt_ms,
  round(e.rttvar_ns / 1000000.0, 3) as rttvar_ms,
  round(e.srto_ns / 1000000.0, 3) as srto_ms,
  coalesce(e.k_margin, p.adaptive_k_margin) as k_margin,
  -- A policy that has changed since holds at once.
  round(greatest(p.adaptive_min_ms, least(p.timeout_ms, e.timeout_ns / 1000000.0)), 3) as timeout_ms,
  round(least(e.min_ns, e.min_before_ns) / 1000000.0, 3) as min_rtt_ms,
  round(least(e.usual_ns, e.usual_before_ns) / 1000000.0, 3) as usual_rtt_ms,
  -- Where calls are rare: of what has been gathered so far.
  coalesce(e.failure_rate, e.failures::float8 / nullif(e.responses, 0)) as failure_rate,
  p.adaptive_slo as slo, e.load_rps, e.high_load_rps,
  coalesce(e.high_load_intervals, 0) as high_load_intervals,
  p.adaptive_min_ms as min_ms, p.timeout_ms as max_ms, i.interval_ms,
  coalesce(e.interval_no, 0) as intervals,
  r.processes, r.in_flight, e.updated_at, coalesce(e.version, 0) as version
from tidegate.policy as p
cross join lateral (select tidegate.adaptive_interval_ms(p) as interval_ms) as i
left join tidegate.timeout_estimator as e on e.kind = p.kind and e.stage = p.stage
cross join lateral (
  select count(*) as processes, coalesce(sum(s.in_flight), 0)::bigint as in_flight
  from tidegate.timeout_report as s
  where s.kind = p.kind and s.stage = p.stage
    and s.at between clock_timestamp() - i.interval_ms * interval '2 ms' and clock_timestamp() + interval '1 second'
) as r
where p.timeout_mode = 'adaptive'
order by p.kind, p.stage;
