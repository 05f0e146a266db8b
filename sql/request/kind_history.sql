-- kind_history: The ends and the calls of each kind by the minute, for a day; the latest first.
--
-- The latest minute is not over, and its calls are not in it yet. No row: nothing has ended, and no call was made.
--
--   kind: The kind.
--   minute: The minute.
--   completed: Requests that were completed in it.
--   failed: Requests that failed, cancelled ones too.
--   timed_out: Requests that timed out.
--   checks: Calls of stage readiness.
--   sends: Calls of stage tx.
--   failed_sends: Sends that failed: timeouts, no connection, 5xx.
--   retries: Sends that were to be made again.
--   p50_ms: Median of the time that a send took, milliseconds.
--   p95_ms: 95th percentile of that.
--   p99_ms: 99th percentile of that.
create or replace view tidegate.kind_history as
select
  m.kind, m.minute, sum(m.completed)::bigint as completed, sum(m.failed)::bigint as failed,
  sum(m.timed_out)::bigint as timed_out, sum(m.checks)::bigint as checks, sum(m.sends)::bigint as sends,
  sum(m.failed_sends)::bigint as failed_sends, sum(m.retries)::bigint as retries, max(m.p50_ms) as p50_ms,
  max(m.p95_ms) as p95_ms, max(m.p99_ms) as p99_ms
from (
  select
    t.kind, t.minute, case t.req_status when 'completed' then t.transitions else 0 end as completed,
    case t.req_status when 'failure' then t.transitions else 0 end as failed,
    case t.req_status when 'timed_out' then t.transitions else 0 end as timed_out,
    0 as checks, 0 as sends, 0 as failed_sends, 0 as retries, null::integer as p50_ms, null::integer as p95_ms,
    null::integer as p99_ms
  from tidegate.transition_minute as t
  where t.req_status in ('completed', 'failure', 'timed_out')
  union all
  select c.kind, c.minute, 0, 0, 0, c.calls, 0, 0, 0, null, null, null
  from tidegate.call_minute as c
  where c.stage = 'readiness'
  union all
  select c.kind, c.minute, 0, 0, 0, 0, c.calls, c.failures, c.retries, c.p50_ms, c.p95_ms, c.p99_ms
  from tidegate.call_minute as c
  where c.stage = 'tx'
) as m
group by m.kind, m.minute
order by m.minute desc, m.kind;
