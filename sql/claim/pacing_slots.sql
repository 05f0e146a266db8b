-- pacing_slots: How many sends of a queue may be reserved now, and from when on (GCRA).
--
-- `tat_ns` is the theoretical arrival time of the next send, `interval_ns` is 1/D rounded up (rounding down would
-- let D + 1 + burst into a second), `tolerance_ns` is what a burst may run ahead. The n-th reserved send (from 0)
-- starts at greatest(now, tat + n · interval - tolerance); `slots` of them start within the reservation.
--
-- The stored time is never taken to be further ahead than a full reservation can bring it, so a clock that steps
-- back does not stop the limiter. A clamp at the reservation alone would hand out one send per claim.
create or replace function tidegate_internal.pacing_slots(
  p_tat_ns bigint, p_per_seconds numeric, p_burst integer, p_now timestamptz,
  out slots integer, out tat_ns bigint, out interval_ns bigint, out tolerance_ns bigint,
  out wait_ms integer
)
  language plpgsql immutable as $$
declare
  v_reservation_ns constant bigint := 100000000;
  v_now_ns         bigint := (extract(epoch from p_now) * 1000000)::bigint * 1000;
  v_ahead_ns       bigint;
begin
  if p_per_seconds = 0 then
    slots := 0;
    return;
  end if;

  interval_ns := ceil(1000000000 / p_per_seconds);
  tolerance_ns := (p_burst - 1) * interval_ns;
  tat_ns := greatest(v_now_ns, least(coalesce(p_tat_ns, 0), v_now_ns + v_reservation_ns + tolerance_ns + interval_ns));

  v_ahead_ns := v_now_ns + v_reservation_ns + tolerance_ns - tat_ns;
  slots := case when v_ahead_ns < 0 then 0 else least(v_ahead_ns / interval_ns + 1, 1000000) end;
  wait_ms := case when slots > 0 then 0 else ceil(-v_ahead_ns / 1000000.0) end;
end;
$$;
