-- sli_alias: The indicators of `sli` under the names that the policies' source document gives them.
--
--   name: Such as Threads.retry.rate.
--   kind: The kind.
--   stage: The stage.
--   value: As in sli.
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
