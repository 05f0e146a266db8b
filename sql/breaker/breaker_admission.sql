-- breaker_admission: The kinds that a claim may not take because of their breakers, and those of which it may take
-- only probes.
--
-- An open breaker whose time is over becomes half open. The rows of half-open breakers stay locked to the end of the
-- claim: while a settle holds one, no probe is taken. A claim of a fair queue takes all kinds, so there paused kinds
-- are blocked, too.
create or replace function tidegate_internal.breaker_admission(p_queue text, p_stage tidegate.stage, p_now timestamptz)
  returns tidegate.breaker_limits language plpgsql as $$
declare
  v_retry   constant interval := '250 milliseconds';
  v_longest constant interval := '30 seconds';
  -- Only breakers of this queue's kinds count; the lock below is the queue's own.
  v_kinds   text[];
  v_paused  text[];
  v_found   tidegate.breaker_limits := row('{}', '{}', '{}', '{}', null);
  v_seen    record;
  v_breaker tidegate.breaker;
  v_free    integer;
  v_until   timestamptz;
begin
  select q.kinds, case when q.fair_by is null then '{}' else q.paused_kinds end into v_kinds, v_paused
  from tidegate.queue as q
  where q.name = p_queue;
  v_found.blocked := v_paused;
  v_found.blocked_until := array_fill(p_now + v_longest, array[cardinality(v_paused)]);
  -- The claims of a queue check for probes one after the other: another claim would take the messages that a probe
  -- could be made with, and snooze them.
  if exists (
    select from tidegate.breaker as b
    where b.stage = p_stage and b.kind = any(v_kinds)
      and (b.state = 'half_open' or (b.state = 'open' and b.open_until <= p_now))
  ) then
    perform pg_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'breakers'));
  end if;
  for v_seen in
    select b.kind, b.epoch, b.state, b.open_until, p.breaker_probes
    from tidegate.breaker as b
    join tidegate.policy as p on p.kind = b.kind and p.stage = b.stage
    where b.stage = p_stage and b.state <> 'closed' and b.kind = any(v_kinds) and b.kind <> all(v_paused)
    order by b.kind
  loop
    v_free := 0;
    v_until := p_now + v_retry;
    if v_seen.state = 'open' and v_seen.open_until > p_now then
      -- Not for longer: the open time may be shortened, or the breaker removed.
      v_until := least(v_seen.open_until, p_now + v_longest);
    else
      select * into v_breaker
      from tidegate.breaker as b
      where b.kind = v_seen.kind and b.stage = p_stage and b.epoch = v_seen.epoch
      for no key update skip locked;
      if v_breaker.state = 'open' then
        perform tidegate_internal.breaker_flip(v_seen.kind, p_stage, 'half_open', v_seen.epoch, 'open time over', null,
          p_now);
        v_breaker.probes := 0;
      end if;
      -- Probes that are not settled by `probe_until` count as lost, and others take their places. Without a row, which
      -- another transaction then holds, `v_free` is null, and the kind is blocked for a moment.
      v_free := v_seen.breaker_probes - case when v_breaker.probe_until <= p_now then 0 else v_breaker.probes end;
    end if;
    if v_free > 0 then
      v_found.probed := v_found.probed || v_seen.kind;
      v_found.probes_free := v_found.probes_free || v_free;
    else
      v_found.blocked := v_found.blocked || v_seen.kind;
      v_found.blocked_until := v_found.blocked_until || v_until;
    end if;
  end loop;

  if v_kinds <> '{}' and not exists (
    select from unnest(v_kinds) as k(name) where k.name <> all(v_found.blocked || v_found.probed)
  ) then
    v_found.requests_max := (select coalesce(sum(f), 0) from unnest(v_found.probes_free) as f);
  end if;
  return v_found;
end;
$$;
