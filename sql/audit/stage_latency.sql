-- stage_latency: How long the calls of each kind and stage took in the last five minutes; and responses, from the claim
-- for the send to the request's end.
--
-- Computed from the samples that are kept, some calls of each second and some of the latest responses: busy seconds
-- count less than their share. A kind and stage without samples has no row.
--
--   kind: The kind.
--   stage: readiness or tx: their calls; response: from the claim for the last send to the end.
--   samples: The number of samples.
--   p50_ms: Their median, milliseconds.
--   p95_ms: Their 95th percentile, milliseconds.
--   p99_ms: Their 99th percentile, milliseconds.
create or replace view tidegate.stage_latency as
select
  t.kind, t.stage, count(*) as samples, percentile_disc(0.5) within group (order by t.ms) as p50_ms,
  percentile_disc(0.95) within group (order by t.ms) as p95_ms,
  percentile_disc(0.99) within group (order by t.ms) as p99_ms
from (
  -- Samples that maintenance has folded, and those that it has not: each is in one of the two tables.
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
