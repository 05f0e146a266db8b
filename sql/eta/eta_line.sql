-- eta_line: when a place in a queue is expected to be answered, by its position: (first + each × position) / below seconds
--
-- Before the bounds of the settings. `first` is null for an unknown place, `below` where a rate or a concurrency of 0 stops the
-- queue. The arguments are those of `eta_seconds`. A batch asks once and reckons each of its places by the line.
--
-- Exact: everything is brought onto one fraction of numerics and divided once, rounding up. (2500 ms and a margin of
-- 0.2 are 3 s, not 4; two messages at 3 per second and 1 s of work are 2 s, not 3.)
create or replace function tidegate.eta_line(
  place              text,
  tx_queue_size      bigint,
  drain_tps          numeric,
  concurrency        integer,
  readiness_ms       integer,
  processing_ms      integer,
  tx_confirmation_ms integer,
  safety_margin      numeric,
  out first          numeric,
  out each           numeric,
  out below          numeric
)
  language plpgsql
  immutable
  parallel safe
  set search_path = pg_catalog, pg_temp
as $$
begin
  each := 0;
  below := 1000;
  case place
    when 'readiness_queue' then
      first := processing_ms::bigint + tx_confirmation_ms;
      if concurrency is not null then
        first := first * concurrency;
        each := 1000;
        below := below * concurrency;
      end if;
    when 'checking' then
      first := readiness_ms::bigint + processing_ms + tx_confirmation_ms;
    when 'tx_queue' then
      first := processing_ms::bigint + tx_confirmation_ms;
    when 'tx_in_flight' then
      first := processing_ms;
    else
      return;
  end case;

  -- Messages ahead are drained at drain_tps: those of the tx queue, or those before this one in it.
  if place <> 'tx_in_flight' and drain_tps is not null then
    first := first * drain_tps + case when place <> 'tx_queue' then coalesce(tx_queue_size, 0) * below else 0 end;
    each := case when place = 'tx_queue' then below else each * drain_tps end;
    below := below * drain_tps;
  end if;
  first := first * (1 + safety_margin);
  each := each * (1 + safety_margin);
  below := nullif(greatest(below, 0), 0);
end;
$$;

comment on function tidegate.eta_line is
  'When a place in a queue is expected to be answered, by its position: (first + each × position) / below seconds.';
select tidegate_internal.allow('eta_line', '{reader,api,worker,admin}');
