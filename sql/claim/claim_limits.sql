-- claim_limits: How many requests a claim may take now, within rate (`pacing_slots`), concurrency, pauses and breakers.
--
-- Each transaction compiles the expressions of PL/pgSQL anew, so the functions of a claim evaluate few.
--
-- In a queue with a limit, the lock `pacing` (tx) or `concurrency` (readiness) is held to the end of the transaction so
-- that no other claim reads the arrival time, or counts the held requests, before this claim has changed them.
create or replace function tidegate_internal.claim_limits(
  p_queue text, p_stage tidegate.stage, p_batch integer, p_lease_for interval, p_kinds text[]
)
  returns tidegate.claim_limits language plpgsql as $$
declare
  v_limits      tidegate.claim_limits;
  v_locked      boolean; -- null: it is not
  v_per_seconds numeric;
  v_burst       integer;
  v_concurrency integer;
  v_barred      boolean;
  v_pacing      regclass;
  v_slots       integer;
begin
  if current_setting('transaction_isolation') <> 'read committed'
    or (p_lease_for between interval '10 milliseconds' and interval '24 hours') is not true
  then
    perform tidegate_internal.require_read_committed('claim_' || p_stage);
    perform tidegate_internal.require_lease_time(p_lease_for);
  end if;
  loop
    select
      case
        when q.paused or 0 in (q.per_seconds, q.max_concurrency)
          or exists (select from tidegate.quarantine_state)
        then 0
        else greatest(p_batch, 0)
      end,
      q.per_seconds, q.burst, q.max_concurrency,
      q.paused_kinds <> '{}' and q.fair_by is not null
        or exists (select from tidegate.breaker as b where b.stage = p_stage and b.state <> 'closed'),
      -- All kinds of the queue are no restriction: then `take_messages` reads no request for its kind.
      case
        when q.paused_kinds <> '{}' and q.fair_by is null
          then tidegate_internal.unpaused_kinds(q.kinds, q.paused_kinds, p_kinds)
        when not q.kinds <@ p_kinds then p_kinds
      end,
      -- Random: a counter may be set back by a crash, and an old lease must never be taken for a new one.
      uuid_hash_extended(gen_random_uuid(), 0)
    into v_limits.batch, v_per_seconds, v_burst, v_concurrency, v_barred, v_limits.kinds, v_limits.token
    from tidegate.queue as q
    where q.name = p_queue and q.stage = p_stage;
    if v_limits.kinds = '{}' then
      v_limits.batch := 0;
    end if;
    if v_limits.batch > 0 is not true then
      if found then
        return v_limits;
      end if;
      perform tidegate_internal.require_queue(p_queue, p_stage);
      -- It was made just now: its limits are not read yet.
      continue;
    end if;
    exit when v_locked or v_per_seconds is null and v_concurrency is null;
    -- Read again under the lock: the wait for it may have been long enough for a pause or another limit.
    perform pg_advisory_xact_lock(
      tidegate.queue_lock_key(p_queue, case p_stage when 'tx' then 'pacing' else 'concurrency' end)
    );
    v_locked := true;
  end loop;

  if v_concurrency is not null then
    v_limits.batch := least(
      v_limits.batch, v_concurrency - tidegate_internal.held_count(p_queue, tidegate.clock())
    );
  end if;
  -- Read after the count: a lease that the count treats as run out has ended by `now`, so its requests are reaped
  -- before later submissions are taken into their places.
  v_limits.now := tidegate.clock();
  if v_per_seconds is not null then
    v_pacing := tidegate_internal.queue_counter(p_queue, 'pacing');
    select p.slots, p.tat_ns, p.interval_ns, p.tolerance_ns
    into v_slots, v_limits.tat_ns, v_limits.interval_ns, v_limits.tolerance_ns
    from tidegate_internal.pacing_slots(pg_sequence_last_value(v_pacing), v_per_seconds, v_burst, v_limits.now) as p;
    -- Stored even when nothing may be sent yet: an arrival time far ahead (the clock stepped back, the rate was raised)
    -- would be clamped again to the same distance at each claim, and stop the queue until the clock reaches it.
    if v_limits.tat_ns < pg_sequence_last_value(v_pacing) then
      perform setval(v_pacing, v_limits.tat_ns);
    end if;
    v_limits.batch := least(v_limits.batch, v_slots);
  end if;
  if v_barred and v_limits.batch > 0 then
    v_limits.breakers := tidegate_internal.breaker_admission(p_queue, p_stage, v_limits.now);
    v_limits.batch := least(v_limits.batch, (v_limits.breakers).requests_max);
  end if;
  return v_limits;
end;
$$;
