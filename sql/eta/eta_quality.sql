-- eta_quality: How good the ETAs of each kind were: the ETA at submit compared with the time until the answer.
--
-- Completed requests count. Errors are positive when the answer came later than the ETA. Polls and lateness are of
-- callers over HTTP.
--
--   kind: The kind.
--   eta: How its ETAs are made at present: nominal or observed.
--   requests: Finished requests.
--   mean_error_seconds: Mean of answer minus ETA; negative: earlier.
--   mean_abs_error_seconds: The same without signs.
--   p90_held_share: Share of 90 percent ETAs that held; 0.9 is right.
--   polls_per_request: Mean number of HTTP polls until one returned the end.
--   mean_lateness_seconds: Mean time from an end to the poll that returned it.
--   predicted: Completed requests that had an ETA.
--   error_seconds_sum: All errors together, in seconds: for a histogram's sum.
--   error_bins: Answers up to -30, -5, -1, 0, 1, 5, 30 s after their ETA, and rest.
--   p90_stated: Completed requests that had a 90 percent ETA.
--   p90_held: How many of these were answered within it.
--   error_abs_seconds_sum: All errors without signs together, in seconds.
create or replace view tidegate.eta_quality as
with summed as (
  select
    f.kind, sum(f.requests) as requests, sum(f.predicted) as predicted, sum(f.error_ms) as error_ms,
    sum(f.error_abs_ms) as error_abs_ms, sum(f.p90_stated) as p90_stated, sum(f.p90_held) as p90_held,
    array[
      sum(f.error_bins[1]), sum(f.error_bins[2]), sum(f.error_bins[3]), sum(f.error_bins[4]), sum(f.error_bins[5]),
      sum(f.error_bins[6]), sum(f.error_bins[7]), sum(f.error_bins[8])
    ] as error_bins
  from (
    select * from tidegate.eta_quality_total
    union all
    select s.kind, s.requests, s.predicted, s.error_ms, s.error_abs_ms, s.error_bins::bigint[], s.p90_stated, s.p90_held
    from tidegate.finish_sample as s
  ) as f
  group by f.kind
)
select
  k.name as kind, k.eta,
  coalesce(s.requests, 0)::bigint as requests,
  round(s.error_ms / nullif(s.predicted, 0) / 1000, 2) as mean_error_seconds,
  round(s.error_abs_ms / nullif(s.predicted, 0) / 1000, 2) as mean_abs_error_seconds,
  round(s.p90_held / nullif(s.p90_stated, 0), 3) as p90_held_share,
  round(p.polls::numeric / nullif(p.answered, 0), 2) as polls_per_request,
  round(p.lateness_ms / nullif(p.answered, 0) / 1000, 2) as mean_lateness_seconds,
  coalesce(s.predicted, 0)::bigint as predicted, (coalesce(s.error_ms, 0) / 1000)::float8 as error_seconds_sum,
  coalesce(s.error_bins, array_fill(0::numeric, array[8]))::bigint[] as error_bins,
  coalesce(s.p90_stated, 0)::bigint as p90_stated, coalesce(s.p90_held, 0)::bigint as p90_held,
  (coalesce(s.error_abs_ms, 0) / 1000)::float8 as error_abs_seconds_sum
from tidegate.kind as k
left join summed as s on s.kind = k.name
left join tidegate.poll_count as p on p.kind = k.name;
