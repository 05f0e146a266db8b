-- 100,000 of each at most: a downstream that has been away for a day must not make this slow.
select
  u.kind, count(*) filter (where u.since is not null) as unresolved,
  extract(epoch from tidegate.clock() - min(u.since))::float8 as oldest_seconds,
  count(*) filter (where u.since is null) as contradicted
from (
  (select w.kind, w.finished_at as since from tidegate.unresolved as w limit 100000)
  union all
  (select o.kind, null from tidegate.outcome as o where o.contradicted_by is not null limit 100000)
) as u
group by u.kind
order by u.kind;
