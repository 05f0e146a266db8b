-- sli: The service level indicators of each stage over the last five minutes.
--
-- Rates are per request that began, ratios per call; null while there was none. Duplicates are dropped at submission,
-- so their rate stands at the tx stage, which every kind has. The gates: of readiness a timeout rate of 0.5 percent, of
-- sends a rate of duplicates of 1 percent.
create or replace view tidegate.sli as
select
  s.*,
  case s.stage
    when 'readiness' then coalesce(s.timeout_rate <= 0.005, true)
    else coalesce(s.dup_drop_rate <= 0.01, true)
  end as within_gate
from (
  select
    p.kind, p.stage, c.requests, c.calls,
    round(c.retries::numeric / nullif(c.requests, 0), 6) as retry_rate,
    round(c.timeouts::numeric / nullif(c.requests, 0), 6) as timeout_rate,
    round(c.failures::numeric / nullif(c.calls, 0), 6) as error_ratio,
    case when p.stage = 'tx' then d.dup_drop_rate end as dup_drop_rate,
    l.p50_ms, l.p99_ms, c.hedges,
    coalesce(b.open_ratio, 0) as open_ratio
  from tidegate.policy as p
  cross join lateral tidegate.calls_since(p.kind, p.stage, tidegate.clock() - interval '5 minutes') as c
  cross join lateral (
    select
      percentile_disc(0.5) within group (order by m.ms) as p50_ms,
      percentile_disc(0.99) within group (order by m.ms) as p99_ms
    from (
      select unnest(f.latency_ms) as ms from tidegate.call_second as f
      where f.kind = p.kind and f.stage = p.stage and f.at > tidegate.clock() - interval '5 minutes'
      union all
      select unnest(f.latency_ms) from tidegate.call_sample as f where f.kind = p.kind and f.stage = p.stage
    ) as m
  ) as l
  cross join lateral (
    select round(sum(f.replayed)::numeric / nullif(sum(f.submitted), 0), 6) as dup_drop_rate
    from tidegate.submission_sample as f
    where p.stage = 'tx' and f.kind = p.kind and f.at > tidegate.clock() - interval '5 minutes'
  ) as d
  left join tidegate.breaker_overview as b on b.kind = p.kind and b.stage = p.stage
) as s
order by s.kind, s.stage;
comment on column tidegate.sli.kind is 'The kind.';
comment on column tidegate.sli.stage is 'The stage.';
comment on column tidegate.sli.requests is 'Requests whose first attempt was settled.';
comment on column tidegate.sli.calls is 'Calls settled.';
comment on column tidegate.sli.retry_rate is 'Retries per request.';
comment on column tidegate.sli.timeout_rate is 'Timeouts per request.';
comment on column tidegate.sli.error_ratio is 'Share of calls that failed.';
comment on column tidegate.sli.dup_drop_rate is 'Share of submissions over HTTP that were duplicates; at the tx stage.';
comment on column tidegate.sli.p50_ms is 'Median latency of calls, milliseconds.';
comment on column tidegate.sli.p99_ms is '99th percentile of their latency, milliseconds.';
comment on column tidegate.sli.hedges is 'Hedged calls.';
comment on column tidegate.sli.open_ratio is 'For what share of the time the breaker was not closed.';
comment on column tidegate.sli.within_gate is 'Whether readiness timeouts are ≤ 0.5 percent, duplicates ≤ 1 percent.';
