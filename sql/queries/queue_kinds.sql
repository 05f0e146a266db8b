-- $1 queue: its stage, and the kinds that use it or have live requests in it
select q.stage::text as stage, k.name as kind
from tidegate.queue as q
left join tidegate.kind as k on q.name in (k.readiness_queue, k.tx_queue)
where q.name = $1
order by k.name;
