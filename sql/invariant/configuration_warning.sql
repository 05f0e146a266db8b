-- configuration_warning: Settings that are valid and probably not intended; empty when there are none.
--
-- deadline_taken_up_by_full_queues: a request that enters its queues at their high marks and needs all attempts would
-- end after its deadline (S75-4: the waits in queues are part of the budget). The tx queue takes high_water /
-- per_seconds, the readiness queue high_water · readiness_ms / max_concurrency; without a limit, or stopped by a limit
-- of 0, a queue counts for nothing.
--
--   name: Its name.
--   subject: The row that it is about, such as kind direct.
--   says: What does not fit, with its figures.
create or replace view tidegate.configuration_warning as
select
  'deadline_taken_up_by_full_queues' as name, 'kind ' || b.kind as subject,
  format(
    'the waits in full queues and all attempts do not fit the deadline: %s (queues: %s) + %s (W_retry) = %s > %s ms',
    b.wait_ms, b.waits, b.w_retry_ms, b.wait_ms + b.w_retry_ms, b.deadline_ms
  ) as says
from (
  select
    k.name as kind, trim_scale(extract(epoch from k.deadline) * 1000) as deadline_ms,
    trim_scale(round(sum(w.ms), 3)) as wait_ms,
    string_agg(format('%s at %s', q.name, g.high_water), ', ' order by p.stage) filter (where w.ms > 0) as waits,
    sum(tidegate.w_retry_ms(p.attempts, p.timeout_ms, p.base_ms, p.factor, p.cap_ms, p.jitter_ms)) as w_retry_ms
  from tidegate.kind as k
  join tidegate.policy as p on p.kind = k.name and (p.stage = 'tx' or k.flow = 'decrypt')
  join tidegate.queue as q on q.name = case p.stage when 'tx' then k.tx_queue else k.readiness_queue end
  join tidegate.gate as g on g.queue = q.name
  cross join lateral (
    select coalesce(
      case p.stage
        when 'tx' then g.high_water * 1000::numeric / nullif(q.per_seconds, 0)
        else g.high_water * k.readiness_ms::numeric / nullif(q.max_concurrency, 0)
      end,
      0
    )
  ) as w(ms)
  group by k.name, k.deadline
) as b
where b.wait_ms > 0 and b.wait_ms + b.w_retry_ms > b.deadline_ms
order by b.kind;
