-- breaker_overview: Every breaker, with the figures of its window, and the share of the last five minutes in which it
-- was not closed.
--
-- The window begins with the breaker's last change at the earliest: earlier calls do not count.
--
--   kind: The kind.
--   stage: The stage.
--   state: closed, open or half_open.
--   changed_at: When it last changed.
--   open_until: When it becomes half open; null unless open.
--   epoch: The number of its changes of state.
--   probes_under_way_or_done: Its probes that are under way or have succeeded; null unless half open.
--   probes_allowed: How many probes it lets through when half open; so many have to succeed.
--   window_calls: Calls in its window.
--   window_failures: Those that failed.
--   window_slow: Those that timed out or took longer than trips_at_latency_ms.
--   error_rate: The share of window_calls that failed; null without calls.
--   trips_at_error_rate: The share of failed calls at which it opens; null: not by errors.
--   trips_at_latency_ms: The latency above which a call is slow: it opens when at least half are; null: not by latency.
--   open_ratio: For what share of the last five minutes it was not closed.
--   last_cause: Why it last changed.
--   last_figures: The figures that the last change was based on.
create or replace view tidegate.breaker_overview as
select
  b.kind, b.stage, b.state, b.changed_at, b.open_until, b.epoch,
  case b.state when 'half_open' then b.probes end as probes_under_way_or_done, p.breaker_probes as probes_allowed,
  c.calls as window_calls, c.failures as window_failures, c.slow as window_slow,
  round(c.failures::numeric / nullif(c.calls, 0), 4) as error_rate, p.breaker_error_rate as trips_at_error_rate,
  p.breaker_latency_ms as trips_at_latency_ms,
  coalesce(round((extract(epoch from t.not_closed) / 300)::numeric, 6), 0) as open_ratio,
  e.cause as last_cause, e.figures as last_figures
from tidegate.breaker as b
join tidegate.policy as p on p.kind = b.kind and p.stage = b.stage
cross join lateral tidegate.calls_since(
  b.kind, b.stage, greatest(tidegate.clock() - make_interval(secs => p.breaker_window_ms / 1000.0), b.changed_at)
) as c
cross join lateral (
  -- The times between each change and the next one, cut off at five minutes.
  select sum(
    least(s.until, tidegate.clock()) - greatest(s.at, tidegate.clock() - interval '5 minutes')
  ) filter (where s.state <> 'closed' and s.until > tidegate.clock() - interval '5 minutes') as not_closed
  from (
    select v.state, v.at, lead(v.at, 1, tidegate.clock()) over (order by v.id) as until
    from tidegate.breaker_event as v
    where v.kind = b.kind and v.stage = b.stage
      -- The state at the start of the five minutes is that of the last change before them.
      and v.at >= coalesce((
        select max(w.at) from tidegate.breaker_event as w
        where w.kind = b.kind and w.stage = b.stage and w.at <= tidegate.clock() - interval '5 minutes'
      ), '-infinity')
  ) as s
) as t
left join lateral (
  select v.cause, v.figures
  from tidegate.breaker_event as v
  where v.kind = b.kind and v.stage = b.stage
  order by v.id desc
  limit 1
) as e on true
order by b.kind, b.stage;
