-- estimator_overview: Every adaptive timeout as all processes share it: one row for each policy in that mode.
--
-- Before anything was folded there is no estimator: the timeout is the longest, and no time is known.
--
--   kind: The kind.
--   stage: The stage.
--   state: normal, or high_load (timeout held at the best case).
--   srtt_ms: Smoothed latency, milliseconds; null: not measured.
--   rttvar_ms: Its smoothed deviation, milliseconds.
--   srto_ms: The smoothed timeout, milliseconds.
--   k_margin: Margin above srtt_ms, in fours of deviations.
--   timeout_ms: Timeout at the last fold, milliseconds.
--   min_rtt_ms: Shortest answer of two windows, milliseconds.
--   usual_rtt_ms: Shortest interval mean of two windows, ms.
--   failure_rate: Share of timed-out calls, last judged interval.
--   slo: Which share may: it steers the margin; null: no target.
--   load_rps: Calls begun per second in the last closed interval.
--   high_load_rps: Largest load since high load began; or null.
--   high_load_intervals: For how many intervals high load has lasted.
--   min_ms: The shortest timeout, milliseconds.
--   max_ms: The longest timeout, milliseconds: the policy's timeout_ms.
--   interval_ms: How long an interval is, milliseconds.
--   intervals: How many are closed.
--   processes: How many processes have reported within two intervals.
--   in_flight: Calls that they had under way.
--   updated_at: When something was last folded in; null: never.
--   version: How many times.
create or replace view tidegate.estimator_overview as
select
  p.kind, p.stage, coalesce(e.state, 'normal') as state, round(e.srtt_ns / 1000000.0, 3) as srtt_ms,
  round(e.rttvar_ns / 1000000.0, 3) as rttvar_ms, round(e.srto_ns / 1000000.0, 3) as srto_ms,
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
  coalesce(e.interval_no, 0) as intervals, r.processes, r.in_flight, e.updated_at, coalesce(e.version, 0) as version
from tidegate.policy as p
cross join lateral (select tidegate.adaptive_interval_ms(p) as interval_ms) as i
left join tidegate.timeout_estimator as e on e.kind = p.kind and e.stage = p.stage
cross join lateral (
  select count(*) as processes, coalesce(sum(s.in_flight), 0)::bigint as in_flight
  from tidegate.timeout_report as s
  where s.kind = p.kind and s.stage = p.stage
    and s.at between tidegate.clock() - i.interval_ms * interval '2 ms' and tidegate.clock() + interval '1 second'
) as r
where p.timeout_mode = 'adaptive'
order by p.kind, p.stage;
