-- sli_alias: Some indicators of `sli`, one row each, under the dotted names of their source (policies).
--
-- For queries and dashboards that use those names; `/metrics` has the same with underscores.
--
--   name: The source's name, such as Threads.retry.rate.
--   kind: The kind.
--   stage: The stage.
--   value: The value of that column of sli: a rate, a share or a count.
create or replace view tidegate.sli_alias as
select a.name, s.kind, s.stage, a.value
from tidegate.sli as s
cross join lateral (
  values
    ('Threads.retry.rate', s.retry_rate),
    ('Threads.timeout.rate', s.timeout_rate),
    ('Threads.dedup.drop_rate', s.dup_drop_rate),
    ('Threads.hedge.count', s.hedges::numeric),
    ('Threads.circuit.open_ratio', s.open_ratio)
) as a(name, value)
order by a.name, s.kind, s.stage;
