-- sli: The service level indicators of each stage over the last five minutes.
--
-- Rates are per request that began, ratios per call; null while there was none. Duplicates are dropped at submission,
-- so their rate stands at the tx stage, which every kind has. The gates: of readiness a timeout rate of 0.5 percent, of
-- sends a rate of duplicates of 1 percent, of both the latency target of their kind.
--
--   kind: The kind.
--   stage: The stage.
--   requests: Requests whose first attempt was settled.
--   calls: Calls settled.
--   retry_rate: Retries per request.
--   timeout_rate: Timeouts per request.
--   error_ratio: Share of calls that failed.
--   dup_drop_rate: Share of submissions that were duplicates; at the tx stage.
--   p50_ms: Median latency of calls, milliseconds.
--   p99_ms: 99th percentile of their latency, milliseconds.
--   slo_p99_ms: The target for it, of the kind; null: none.
--   hedges: Hedged calls.
--   open_ratio: For what share of the time the breaker was not closed.
--   within_gate: Whether readiness timeouts ≤ 0.5 %, duplicates ≤ 1 %, p99_ms ≤ slo_p99_ms.
create or replace view tidegate.sli as
select
  s.*,
  case s.stage
    when 'readiness' then coalesce(s.timeout_rate <= 0.005, true)
    else coalesce(s.dup_drop_rate <= 0.01, true)
  end and coalesce(s.p99_ms <= s.slo_p99_ms, true) as within_gate
from (
  select
    p.kind, p.stage, c.requests, c.calls,
    round(c.retries::numeric / nullif(c.requests, 0), 6) as retry_rate,
    round(c.timeouts::numeric / nullif(c.requests, 0), 6) as timeout_rate,
    round(c.failures::numeric / nullif(c.calls, 0), 6) as error_ratio,
    d.dup_drop_rate, l.p50_ms, l.p99_ms, k.slo_p99_ms, c.hedges, coalesce(b.open_ratio, 0) as open_ratio
  from tidegate.policy as p
  join tidegate.kind as k on k.name = p.kind
  cross join lateral tidegate.calls_since(p.kind, p.stage, tidegate.clock() - interval '5 minutes') as c
  left join tidegate.stage_latency as l on l.kind = p.kind and l.stage = p.stage::text
  cross join lateral (
    select round(sum(f.replayed)::numeric / nullif(sum(f.submitted), 0), 6) as dup_drop_rate
    from tidegate.submission_sample as f
    where p.stage = 'tx' and f.kind = p.kind and f.at > tidegate.clock() - interval '5 minutes'
  ) as d
  left join tidegate.breaker_overview as b on b.kind = p.kind and b.stage = p.stage
) as s
order by s.kind, s.stage;
