-- eta_line: When a place in a queue is expected to be answered, by its position: (first + each × position) / below
-- seconds.
--
-- Before the bounds of the settings. `first` is null for an unknown place, `below` where a rate or a concurrency of 0
-- stops the queue. The arguments are those of `eta_seconds`. A batch reads the line once for all of its
-- positions. A query, which PostgreSQL puts in place of the call.
--
-- Exact: everything is brought onto one fraction of numerics and divided once, rounding up. (2500 ms and a margin of
-- 0.2 are 3 s, not 4; two messages at 3 per second and 1 s of work are 2 s, not 3.)
create or replace function tidegate.eta_line(
  place text, tx_queue_size bigint, drain_tps numeric, concurrency integer, readiness_ms integer, processing_ms integer,
  tx_confirmation_ms integer, safety_margin numeric
)
  returns table (first numeric, each numeric, below numeric) language sql immutable parallel safe
begin atomic
  select
    -- Messages ahead are drained at drain_tps: those of the tx queue, or those before this one in it.
    (1 + safety_margin) * (
      l.work_ms * l.checks * l.sends + case when l.drains and place <> 'tx_queue' then l.ahead * 1000 * l.checks
        else 0 end
    ),
    (1 + safety_margin) * case
      when place = 'tx_queue' and l.drains then 1000
      when place = 'readiness_queue' and concurrency is not null then 1000 * l.sends
      else 0
    end,
    nullif(greatest(1000 * l.checks * l.sends, 0), 0)
  from (
    select
      case place
        when 'readiness_queue' then processing_ms::bigint + tx_confirmation_ms
        when 'checking' then readiness_ms::bigint + processing_ms + tx_confirmation_ms
        when 'tx_queue' then processing_ms::bigint + tx_confirmation_ms
        when 'tx_in_flight' then processing_ms
      end as work_ms,
      case when place = 'readiness_queue' and concurrency is not null then concurrency else 1 end::numeric as checks,
      case when place <> 'tx_in_flight' and drain_tps is not null then drain_tps else 1 end as sends,
      place <> 'tx_in_flight' and drain_tps is not null as drains,
      coalesce(tx_queue_size, 0)::numeric as ahead
  ) as l;
end;
select tidegate_internal.allow('eta_line', '{reader,api,worker,admin}');
