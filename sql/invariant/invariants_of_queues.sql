-- invariants_of_queues: The invariants of requests and messages, queues and gates.
--
-- As `invariants`.
create or replace function tidegate_internal.invariants_of_queues()
  returns table (name text, rule text, subject text, query text) language sql immutable as $$
  values
    ('live_request_without_message',
     'a request that is queued, processing or in flight waits in a queue of its stage, or is under the lease that its '
     'row names',
     'request',
     $q$
r.req_status in ('queued', 'processing', 'tx_in_flight') and not exists (
  select
  from {message} as m
  where m.queue = r.queue and m.msg_id = r.msg_id and m.request_id = r.id
    and m.stage = case when r.req_status = 'queued' then 'readiness' else 'tx' end
) and not exists (
  select
  from tidegate.claim as c
  join tidegate.queue as q on q.name = c.queue
  where c.token = r.lease and c.queue = r.queue and r.id = any(c.ids)
    and q.stage::text = case when r.req_status = 'queued' then 'readiness' else 'tx' end
)
     $q$),
    ('request_in_two_places', 'a request under a lease has no message, and is in one part of its claim', 'request', $q$
r.lease is not null and (
  select count(*) from tidegate.claim as c where c.token = r.lease and r.id = any(c.ids)
) + (
  select count(*) from {message} as m where m.queue = r.queue and m.msg_id = r.msg_id and m.request_id = r.id
) > 1
     $q$),
    ('ended_request_under_a_lease', 'a request that awaits its response or has ended names no lease', 'request',
     $q$r.lease is not null and r.req_status not in ('queued', 'processing', 'tx_in_flight')$q$),
    ('ended_request_with_message', 'a request that awaits its response or has ended has no message', 'message', $q$
r.req_status not in ('queued', 'processing', 'tx_in_flight')
-- One that came back while its request ended is removed by its next claim.
and not (
  m.enqueued_at < coalesce(r.finished_at, r.receipt_received_at)
  and coalesce(r.finished_at, r.receipt_received_at) > statement_timestamp() - interval '1 second'
) is true
     $q$),
    ('message_without_request', 'a message stands for a request', 'message', $q$r.id is null$q$),
    ('message_not_named_by_its_request', 'the row of a live request names its message', 'message', $q$
r.req_status in ('queued', 'processing', 'tx_in_flight') and (r.queue, r.msg_id) is distinct from (m.queue, m.msg_id)
     $q$),
    ('request_held_and_not_in_flight', 'a request that is processing is under no lease', 'request',
     $q$r.req_status = 'processing' and r.lease is not null$q$),
    ('request_in_flight_and_not_held', 'a request in flight is under a lease, even if it has run out', 'request',
     $q$r.req_status = 'tx_in_flight' and r.lease is null$q$),
    ('claim_invalid',
     'a claim holds requests of a queue that exists, and its lease lasts no longer than its lease time', null, $q$
select c.token || ' ' || c.part as id
from tidegate.claim as c
where c.ids = '{}' or c.lease_ms <= 0
  or c.until > statement_timestamp() + interval '1 minute' + least(c.lease_ms, 1000000000) * interval '1 ms'
  or not exists (select from tidegate.queue as q where q.name = c.queue)
     $q$),
    ('message_snoozed_beyond_its_deadline', 'a message is not snoozed beyond the deadline of its request', 'message',
     $q$
(r.queue, r.msg_id) = (m.queue, m.msg_id)
and m.vt > r.deadline_at + interval '2 minutes' and m.vt > statement_timestamp() + interval '2 minutes'
     $q$),
    ('message_below_the_watermark',
     'no message that may be claimed lies below its queue''s watermark for longer than a rescan', 'message', $q$
m.vt = '-infinity' and exists (
  select from tidegate.maintenance as d
  where d.duty = 'rescan_queues' and d.ran_at < statement_timestamp() - interval '1 minute'
) and m.msg_id < pg_sequence_last_value(to_regclass('tidegate.' || quote_ident('watermark_' || m.queue)))
     $q$),
    ('queue_without_storage',
     'a queue has its pgmq table and its counters, a fair one its turns and its journal', 'queue', $q$
to_regclass('pgmq.' || quote_ident('q_' || q.name)) is null or exists (
  select
  from unnest(
    '{pacing,watermark,epoch,due_watermark,lease_watermark,first_waiting,surveyed_at,survey_cursor,not_waiting,offset,
      closed_draws,snapshot_number,snapshot_xid}'::text[]
  ) as c(counter)
  where to_regclass('tidegate.' || quote_ident(c.counter || '_' || q.name)) is null
) or q.fair_by is not null and exists (
  select
  from unnest('{turn,arrival,ready_tag,ready_no,last_turn,forgotten,folded}'::text[]) as c(relation)
  where to_regclass('tidegate.' || quote_ident(c.relation || '_' || q.name)) is null
)
     $q$),
    ('queue_numbers_used_twice', 'a queue draws numbers above those of its messages', 'queue', $q$
(select max(m.msg_id) from {message} as m where m.queue = q.name)
  > coalesce(pg_sequence_last_value(to_regclass('pgmq.' || quote_ident('q_' || q.name || '_msg_id_seq'))), 0)
     $q$),
    ('pacing_far_ahead', 'the next send of a queue is not reserved further ahead than claims reserve', 'queue', $q$
q.per_seconds > 0
and pg_sequence_last_value(to_regclass('tidegate.' || quote_ident('pacing_' || q.name))) / 1000000000.0
  > extract(epoch from tidegate.clock()) + 60 + 2 * (q.burst + 1) / q.per_seconds
     $q$),
    ('survey_does_not_add_up',
     'a chunk of a queue''s survey is of a queue that exists, and counts what its blocks count', null, $q$
select s.queue || ' ' || s.chunk as id
from tidegate.queue_survey as s
where s.waiting <> (select sum(b) from unnest(s.waiting_by_block) as b)
  or not exists (select from tidegate.queue as q where q.name = s.queue)
     $q$),
    ('queue_without_gate', 'a queue has a gate', 'queue',
     $q$q.name not in (select g.queue from tidegate.gate as g where g.queue is not null)$q$),
    ('gate_open_above_its_mark',
     'a gate that is not forced closes within seconds when the depth behind it reaches the high mark', 'gate', $q$
g.state = 'accepting' and g.is_settled and g.high_water <= case
  when g.queue is null then (
    select count(*)
    from tidegate.quota_usage as m
    join tidegate.request as r on r.id = m.request_id and r.submitted_at < g.since
    where m.gate = g.name
  )
  else (select count(*) from (
    select from {message} as m where m.queue = g.queue and m.enqueued_at < g.since limit g.high_water
  ) as c) + (select count(*) from tidegate.leased_request as l where l.queue = g.queue and l.claimed_at < g.since)
end
     $q$),
    ('gate_closed_below_its_mark',
     'a gate that is not forced opens within seconds when the depth behind it reaches the low mark', 'gate', $q$
g.state = 'too_many_requests' and g.is_settled and case
  when g.queue is null then case when g.is_watched then 0 else g.low_water end
    >= (select count(*) from tidegate.quota_usage as m where m.gate = g.name)
  else g.low_water >= (select count(*) from (
    select from {message} as m where m.queue = g.queue limit g.low_water + 1
  ) as c) + (
    select count(*) from tidegate.leased_request as l where l.queue = g.queue
  ) + (
    select coalesce(sum(d.drained), 0) from tidegate.queue_drain as d where d.queue = g.queue and d.at > g.since
  )
end
     $q$),
    ('gate_state_without_its_event',
     'the last change of a gate on record led to its state, at the depth on record; one that never changed accepts',
     'gate', $q$
case g.epoch
  when 0 then g.state <> 'accepting' or g.depth <> 0
    or (select max(e.epoch) from tidegate.gate_event as e where e.gate = g.name) = 0
  else ((g.epoch, g.state, g.depth) = (
    select e.epoch, e.state, e.depth from tidegate.gate_event as e where e.gate = g.name order by e.epoch desc limit 1
  )) is not true
end
     $q$),
    ('quota_counts_wrongly',
     'a quota counts the requests of its kind or submitter that are in queues, and no others', null, $q$
select coalesce(l.gate, m.gate) || ' ' || coalesce(l.id, m.request_id) as id
from (
  select g.name as gate, r.id, r.submitted_at
  from tidegate.gate as g
  join tidegate.request as r on g.kind = r.kind or g.submitter = r.submitter
  where {of r.id} and g.queue is null and r.req_status in ('queued', 'processing', 'tx_in_flight')
) as l
full join (select * from tidegate.quota_usage as c where {of c.request_id}) as m on m.gate = l.gate
  and m.request_id = l.id
left join tidegate.request as r on r.id = m.request_id
where (m.gate is null and l.submitted_at < statement_timestamp() - interval '1 minute'
    and not exists (select from tidegate.gate_round as o where o.is_new))
  or (l.gate is null and exists (select from tidegate.gate as g where g.name = m.gate)
    and coalesce(r.finished_at, r.receipt_received_at, '-infinity') < statement_timestamp() - interval '1 minute')
     $q$);
$$;
