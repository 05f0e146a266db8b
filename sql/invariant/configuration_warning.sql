-- configuration_warning: Settings that are valid and probably not intended; empty when there are none.
--
-- deadline_taken_up_by_full_queues: a request that enters its queues at their high marks and needs all attempts would
-- end after its deadline (S75-4: the waits in queues are part of the budget). The tx queue takes high_water /
-- per_seconds, the readiness queue high_water · readiness_ms / max_concurrency; without a limit, or stopped by a limit
-- of 0, a queue counts for nothing.
--
-- attempts_time_out: nearly every call of a stage was cut at its timeout. nominal_time_is_not_measured: a kind tells
-- its callers the nominal time, and its last responses took another. responses_never_come: requests of a kind await
-- responses, and none of the kind was ever answered.
--
--   name: Its name.
--   subject: The row that it is about, such as kind direct.
--   message: What does not fit, with its figures.
create or replace view tidegate.configuration_warning as
select
  'deadline_taken_up_by_full_queues' as name, 'kind ' || b.kind as subject,
  format(
    'the waits in full queues and all attempts do not fit the deadline: %s (queues: %s) + %s (W_retry) = %s > %s ms',
    b.wait_ms, b.waits, b.w_retry_ms, b.wait_ms + b.w_retry_ms, b.deadline_ms
  ) as message
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
union all
select
  'attempts_time_out', 'kind ' || p.kind,
  format('%s of %s calls of stage %s in the last five minutes were cut after its timeout of %s ms: if the downstream '
    'takes longer, raise %s.%3$s.timeout_ms', c.timeouts, c.calls, p.stage, p.timeout_ms, p.kind)
from tidegate.policy as p
cross join lateral tidegate.calls_since(p.kind, p.stage, tidegate.clock() - interval '5 minutes') as c
where c.timeouts >= 3 and c.timeouts >= 0.9 * c.calls
union all
select
  'nominal_time_is_not_measured', 'kind ' || k.name,
  format('callers are told the nominal %s s from the send to the response, and the last %s responses took %s s: '
    '`tidegate config set %s.eta observed`', round(n.ms / 1000.0, 1), l.samples, round(l.p50_ms / 1000.0, 1), k.name)
from tidegate.kind as k
join tidegate.stage_latency as l on l.kind = k.name and l.stage = 'response'
cross join lateral (select k.processing_ms + k.tx_confirmation_ms) as n(ms)
where k.eta = 'nominal' and l.samples >= 20 and abs(l.p50_ms - n.ms) > 1000
  and (l.p50_ms > 2 * n.ms or n.ms > 2 * l.p50_ms)
union all
select
  'responses_never_come', 'kind ' || a.kind,
  format('%s requests await their responses, and none of this kind was ever answered: send responses to '
    '/v1/responses, or let the stage return them, or ask for them (--response-url)', a.requests)
from tidegate.request_overview as a
where a.req_status = 'receipt_received'
  and not exists (
    select from tidegate.request_overview as c where c.kind = a.kind and c.req_status = 'completed'
  )
  and exists (
    select
    from (select w.request_id from tidegate.awaiting_response as w order by w.due_at limit 1000) as w
    join tidegate.request as r on r.id = w.request_id
    where r.kind = a.kind and r.receipt_received_at < tidegate.clock() - interval '1 minute'
  )
order by subject, name;
