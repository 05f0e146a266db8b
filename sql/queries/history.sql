-- kind_history: $1 kind or null, $2 since
select kind, minute, completed, failed, timed_out, checks, sends, failed_sends, retries, p50_ms, p95_ms, p99_ms
from tidegate.kind_history
where ($1::text is null or kind = $1) and minute >= $2
order by minute;

-- queue_history: $1 queue or null, $2 since
select queue, minute, depth, drained
from tidegate.queue_history
where ($1::text is null or queue = $1) and minute >= $2
order by minute;
