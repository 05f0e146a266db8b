-- $1 queue, $2 since
select minute, depth, drained
from tidegate.queue_history
where queue = $1 and minute >= $2
order by minute;
