-- kind_history: $1 kind, $2 since
select minute, completed, failed, timed_out, checks, sends, failed_sends, retries, p50_ms, p99_ms
from tidegate.kind_history
where kind = $1 and minute >= $2
order by minute;

-- queue_history: $1 queue, $2 since
select minute, depth, drained
from tidegate.queue_history
where queue = $1 and minute >= $2
order by minute;
