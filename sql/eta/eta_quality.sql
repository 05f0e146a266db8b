-- eta_quality: How good the predictions of each kind were: what callers were told at submit, against when the answer
-- was there.
--
-- Of what each caller was told at submit, against when the answer was there; every finished request counts. Errors
-- are positive when the answer came later than told. Polls and lateness are of callers over HTTP.
create or replace view tidegate.eta_quality as
with finish as (
  select
    f.kind, f.requests, f.predicted, f.error_ms, f.error_abs_ms, f.error_bins::bigint[], f.p90_stated, f.p90_held
  from tidegate.finish_sample as f
  union all
  select
    q.kind, q.requests, q.predicted, q.error_ms, q.error_abs_ms, q.error_bins, q.p90_stated, q.p90_held
  from tidegate.eta_quality_total as q
), summed as (
  select
    f.kind, sum(f.requests) as requests, sum(f.predicted) as predicted, sum(f.error_ms) as error_ms,
    sum(f.error_abs_ms) as error_abs_ms, sum(f.p90_stated) as p90_stated, sum(f.p90_held) as p90_held,
    array[
      sum(f.error_bins[1]), sum(f.error_bins[2]), sum(f.error_bins[3]), sum(f.error_bins[4]), sum(f.error_bins[5]),
      sum(f.error_bins[6]), sum(f.error_bins[7]), sum(f.error_bins[8])
    ] as error_bins
  from finish as f
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
  coalesce(s.predicted, 0)::bigint as predicted,
  (coalesce(s.error_ms, 0) / 1000)::float8 as error_seconds_sum,
  coalesce(s.error_bins, array_fill(0::numeric, array[8]))::bigint[] as error_bins,
  coalesce(s.p90_stated, 0)::bigint as p90_stated,
  coalesce(s.p90_held, 0)::bigint as p90_held
from tidegate.kind as k
left join summed as s on s.kind = k.name
left join tidegate.poll_count as p on p.kind = k.name;
comment on column tidegate.eta_quality.kind is 'The kind.';
comment on column tidegate.eta_quality.eta is 'How its ETAs are made at present: nominal or observed.';
comment on column tidegate.eta_quality.requests is 'Finished requests.';
comment on column tidegate.eta_quality.mean_error_seconds is
  'By how much later than told the answer was there, on average; negative: earlier.';
comment on column tidegate.eta_quality.mean_abs_error_seconds is 'The same without signs.';
comment on column tidegate.eta_quality.p90_held_share is
  'Of the callers told a time for 90 percent, the share whose answer was there within it; 0.9 is right.';
comment on column tidegate.eta_quality.polls_per_request is
  'Polls over HTTP until one told the end, on average of the requests whose end a poll has told.';
comment on column tidegate.eta_quality.mean_lateness_seconds is
  'How long an end had waited for the poll that told it, on average.';
comment on column tidegate.eta_quality.predicted is 'Of the finished requests, those whose caller was told an ETA.';
comment on column tidegate.eta_quality.error_seconds_sum is 'All errors together, in seconds: for a histogram''s sum.';
comment on column tidegate.eta_quality.error_bins is
  'How many answers came up to -30, -5, -1, 0, 1, 5, 30 seconds later than told, each above the one before, and the '
  'rest.';
comment on column tidegate.eta_quality.p90_stated is 'How many callers were told a time for 90 percent.';
comment on column tidegate.eta_quality.p90_held is 'How many of these had their answer within it.';
