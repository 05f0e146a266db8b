-- reserve_send: Takes one more slot of a tx queue's rate, for a send whose own has passed and for hedges: when it may
-- start, or how many milliseconds until to ask again.
--
-- For a request whose reserved time has passed during the search for its earlier receipt, and for a hedge. `send_in` is
-- how long after `reserved_at` (this database's clock) it may start, 0 in a queue without a rate limit; null when no
-- slot is free within the next 100 ms: ask again after `wait_ms`.
create or replace function tidegate.reserve_send(
  queue text,
  out send_in interval, out wait_ms integer, out reserved_at timestamptz
)
  language plpgsql security definer as $$
declare
  v_queue  tidegate.queue := tidegate_internal.require_queue(reserve_send.queue, 'tx');
  v_pacing regclass := tidegate_internal.queue_counter(reserve_send.queue, 'pacing');
  v_slots  record;
begin
  wait_ms := 0;
  reserved_at := tidegate.clock();
  if v_queue.paused or v_queue.per_seconds = 0 then
    wait_ms := 1000;
    return;
  end if;
  if v_queue.per_seconds is null then
    send_in := '0';
    return;
  end if;

  perform pg_advisory_xact_lock(tidegate.queue_lock_key(reserve_send.queue, 'pacing'));
  reserved_at := tidegate.clock();
  v_slots := tidegate_internal.pacing_slots(pg_sequence_last_value(v_pacing), v_queue.per_seconds, v_queue.burst,
    reserved_at);
  -- Stored even when nothing may be sent yet, as in `claim_tx`.
  if v_slots.tat_ns < pg_sequence_last_value(v_pacing) then
    perform setval(v_pacing, v_slots.tat_ns);
  end if;
  if v_slots.slots = 0 then
    wait_ms := v_slots.wait_ms;
    return;
  end if;
  perform setval(v_pacing, v_slots.tat_ns + v_slots.interval_ns);
  send_in := greatest(
    interval '0', to_timestamp((v_slots.tat_ns - v_slots.tolerance_ns) / 1000 / 1000000.0) - reserved_at
  );
end;
$$;
select tidegate_internal.allow('reserve_send', '{worker,admin}');
