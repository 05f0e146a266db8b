-- no parameters
select w.what, coalesce(sum((r.figures ->> w.what)::numeric), 0)::bigint as requests
from unnest(array[
  'reset', 'ended', 'rebuilt', 'renumbered', 'counted', 'expired', 'dated', 'strays_removed', 'responses', 'gates',
  'counts', 'storages'
]) as w(what)
left join tidegate.recovery as r on r.figures ? w.what
group by w.what
order by w.what;
