-- $1 queue: its stage, and the kinds that use it, with whether their policy says exactly_once
select q.stage::text as stage, k.name as kind, p.semantics = 'exactly_once' as exactly_once
from tidegate.queue as q
left join tidegate.kind as k on q.name = case q.stage when 'tx' then k.tx_queue else k.readiness_queue end
left join tidegate.policy as p on p.kind = k.name and p.stage = q.stage
where q.name = $1
order by k.name;
