-- tidegate.request_eta: where each request stands and when to ask for it again; 0 for finished ones
--
-- Positions of whole queues by one window function: for lists. One request is cheaper through `request_outlook(id)`,
-- which this view asks for those with observed ETAs.
create or replace view tidegate.request_eta as
with waiting as materialized (
  select p.request_id, p.queue, p.msg_id, p.held, p.queue_position, p.visible_at from tidegate.queue_position as p
), barred as materialized (
  select k.name as kind, tidegate.breaker_bars(k.name, 'readiness') as readiness, tidegate.breaker_bars(k.name, 'tx') as tx
  from tidegate.kind as k
), tx_waiting as materialized (
  select p.queue, count(*) as messages from tidegate.queue_position as p where p.waiting group by p.queue
)
select
  r.id, r.kind, r.req_status, r.queue, w.queue_position as position,
  place.elapsed,
  case
    when place.name = 'finished' then 0
    when k.eta = 'observed' then tidegate.request_retry_after(r.id)
    else tidegate.nominal_eta(k, place.name, w.queue_position, place.visible_in, place.elapsed, place.terms)
  end as retry_after_seconds,
  place.name as place
from tidegate.request as r
join tidegate.kind as k on k.name = r.kind
cross join tidegate.setting as s
left join waiting as w on w.request_id = r.id and w.queue = r.queue and w.msg_id = r.msg_id
left join tidegate.queue as ready on ready.name = case when r.req_status = 'queued' then coalesce(r.queue, k.readiness_queue) end
left join tidegate.queue as tx
  on tx.name = case when r.req_status = 'queued' then k.tx_queue else coalesce(r.queue, k.tx_queue) end
left join tx_waiting as t on t.queue = k.tx_queue and r.req_status = 'queued'
left join barred as b on b.kind = r.kind
cross join lateral (
  select
    case r.req_status
      when 'queued' then case when w.held then 'checking' else 'readiness_queue' end
      when 'processing' then 'tx_queue'
      when 'tx_in_flight' then 'tx_in_flight'
      when 'receipt_received' then 'awaiting_response'
      else 'finished'
    end as name,
    greatest(interval '0', clock_timestamp() - case r.req_status
      when 'queued' then r.queued_at
      when 'processing' then r.processing_at
      when 'tx_in_flight' then r.tx_in_flight_at
      when 'receipt_received' then r.receipt_received_at
      else r.finished_at
    end) as elapsed,
    case when not w.held and w.visible_at > clock_timestamp() then w.visible_at - clock_timestamp() end as visible_in,
    (
      case when r.req_status = 'queued' then coalesce(t.messages, 0) end,
      case when tx.paused or b.tx then 0 else tx.per_seconds end,
      case when ready.paused or b.readiness then 0 else ready.max_concurrency end,
      s.safety_margin, s.min_seconds, s.max_seconds, s.jitter
    )::tidegate.eta_terms as terms
) as place;
