-- eta_history: How good the ETAs of each kind were by the minute, for a day; the latest first.
--
-- The latest minute is not in it before it is over. No row: no request with an ETA was completed in it.
--
--   kind: The kind.
--   minute: The minute.
--   predicted: Completed requests that had an ETA.
--   mean_error_seconds: Mean of answer minus ETA; negative: earlier.
--   mean_abs_error_seconds: The same without signs.
--   p90_held_share: Share of 90 percent ETAs that held; 0.9 is right.
--   polls_per_request: Mean number of HTTP polls until one returned the end.
--   mean_lateness_seconds: Mean time from an end to the poll that returned it.
create or replace view tidegate.eta_history as
select
  d.kind, d.minute, d.predicted, round(d.error_ms / d.predicted / 1000, 2) as mean_error_seconds,
  round(d.error_abs_ms / d.predicted / 1000, 2) as mean_abs_error_seconds,
  round(d.p90_held::numeric / nullif(d.p90_stated, 0), 3) as p90_held_share,
  round(d.polls::numeric / nullif(d.answered, 0), 2) as polls_per_request,
  round(d.lateness_ms::numeric / nullif(d.answered, 0) / 1000, 2) as mean_lateness_seconds
from (
  select
    m.kind, lag(m.minute) over life as minute, m.predicted - lag(m.predicted) over life as predicted,
    m.error_ms - lag(m.error_ms) over life as error_ms, m.error_abs_ms - lag(m.error_abs_ms) over life as error_abs_ms,
    m.p90_stated - lag(m.p90_stated) over life as p90_stated, m.p90_held - lag(m.p90_held) over life as p90_held,
    m.polls - lag(m.polls) over life as polls, m.answered - lag(m.answered) over life as answered,
    m.lateness_ms - lag(m.lateness_ms) over life as lateness_ms
  from tidegate.eta_minute as m
  window life as (partition by m.kind order by m.minute)
) as d
where d.predicted > 0
order by d.minute desc, d.kind;
