-- stage_latency: How long calls took in the last five minutes, by kind and stage; and responses, from the send to the
-- request's end.
--
-- Of samples: of calls some of each second, of responses the latest thousand. No row: nothing was measured.
--
--   kind: The kind.
--   stage: readiness or tx, for their calls; response.
--   samples: How many times were sampled.
--   p50_ms: Their median, milliseconds.
--   p95_ms: Their 95th percentile.
--   p99_ms: Their 99th percentile.
create or replace view tidegate.stage_latency as
select
  t.kind, t.stage, count(*) as samples, percentile_disc(0.5) within group (order by t.ms) as p50_ms,
  percentile_disc(0.95) within group (order by t.ms) as p95_ms,
  percentile_disc(0.99) within group (order by t.ms) as p99_ms
from (
  select c.kind, c.stage::text as stage, m.ms
  from (table tidegate.call_second union all table tidegate.call_sample) as c
  cross join unnest(c.latency_ms) as m(ms)
  where c.at > tidegate.clock() - interval '5 minutes'
  union all
  select a.kind, 'response', m.ms
  from (
    select f.kind, f.at, f.answer_ms from tidegate.finish_sample as f
    union all
    select s.kind, s.at, s.answer_ms from tidegate.answer_sample as s
  ) as a
  cross join unnest(a.answer_ms) as m(ms)
  where a.at > tidegate.clock() - interval '5 minutes'
) as t
group by t.kind, t.stage
order by t.kind, t.stage;
