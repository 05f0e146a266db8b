-- queue_is_congested: Whether a queue is congested: its gate is closed at its high mark, or arrivals reach departures.
--
-- ρ is arrivals over possible departures in ten seconds or more: at the configured rate, or as many as left. Fewer than
-- twenty arrivals are ignored. Without a rate, departures equal arrivals in a queue that keeps up, so it has to have
-- grown.
create or replace function tidegate_internal.queue_is_congested(p_queue tidegate.queue, p_now timestamptz)
  returns boolean language plpgsql as $$
declare
  v_span constant interval := '10 seconds';
  v_few  constant integer := 20;
  v_was  tidegate.queue_load;
  v_last bigint := (select k.last from tidegate_internal.queue_numbers(p_queue.name) as k);
  v_full constant boolean := exists (
    select from tidegate.gate as g where g.queue = p_queue.name and g.state = 'too_many_requests' and not g.forced
  );
  v_came bigint;
  v_left numeric;
  v_rho  numeric;
begin
  select * into v_was from tidegate.queue_load as l where l.queue = p_queue.name;
  if v_was.at > p_now - v_span and v_was.at <= p_now then
    return v_full or v_was.congested;
  end if;

  v_came := greatest(0, v_last - v_was.last_id);
  v_left := coalesce(
    p_queue.per_seconds * extract(epoch from p_now - v_was.at),
    (select sum(d.drained) from tidegate.queue_drain as d where d.queue = p_queue.name and d.at > v_was.at),
    0
  );
  v_rho := round(v_came / greatest(v_left, 1), 3);
  insert into tidegate.queue_load as l (queue, at, last_id, congested, rho)
  values (
    p_queue.name, p_now, v_last,
    coalesce(
      v_came >= v_few and v_rho >= 1 and (p_queue.per_seconds is not null or v_came - v_left >= v_few)
        and tidegate_internal.queue_has_waiting(p_queue.name),
      false
    ),
    v_rho
  )
  on conflict (queue) do update
  set at = excluded.at, last_id = excluded.last_id, congested = excluded.congested, rho = excluded.rho
  returning l.congested into v_was.congested;
  return v_full or v_was.congested;
end;
$$;
