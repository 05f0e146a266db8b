-- claim_limits: How much a claim may take: at most `batch` requests (0: none) of `kinds` (null: of all kinds), under a
-- new lease token, at the instant `now`.
--
-- The other values are the limits that breakers set, and those of `pacing_slots` in a queue with a rate limit. In a
-- queue with a limit, the lock `pacing` (tx) or `concurrency` (readiness) is held to the end of the transaction, so
-- that no other claim reads the arrival time, or counts the held requests, before this claim has changed them.
create or replace function tidegate_internal.claim_limits(
  p_queue text, p_stage tidegate.stage, p_batch integer, p_lease_for interval, p_kinds text[],
  out batch integer, out kinds text[], out token bigint, out now timestamptz, out breakers tidegate.breaker_limits,
  out tat_ns bigint, out interval_ns bigint, out tolerance_ns bigint
)
  language plpgsql as $$
declare
  v_locked      boolean := false;
  v_paused      boolean;
  v_per_seconds numeric;
  v_burst       integer;
  v_concurrency integer;
  v_barred      boolean;
  v_pacing      regclass;
  v_slots       integer;
  -- Assigned, because a statement costs more.
  v_lease_for   constant interval := tidegate_internal.require_lease_time(p_lease_for);
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform tidegate_internal.require_read_committed('claim_' || p_stage);
  end if;
  batch := 0;
  loop
    select
      q.paused, q.per_seconds, q.burst, q.max_concurrency,
      exists (select from tidegate.breaker as b where b.stage = p_stage and b.state <> 'closed'),
      -- All kinds of the queue are no restriction: then `take_messages` need not read each request for its kind.
      case
        when exists (
          select from tidegate_internal.kinds_of_queue(p_queue, p_stage) as k(name) where k.name <> all(p_kinds)
        )
        then p_kinds
      end
    into v_paused, v_per_seconds, v_burst, v_concurrency, v_barred, kinds
    from tidegate.queue as q
    where q.name = p_queue and q.stage = p_stage;
    if not found then
      perform tidegate_internal.require_queue(p_queue, p_stage);
      -- It was made just now: its limits are not read yet.
      continue;
    end if;
    if v_paused or 0 in (v_per_seconds, v_concurrency) or p_batch > 0 is not true then
      return;
    end if;
    exit when v_locked or v_per_seconds is null and v_concurrency is null;
    -- Read again under the lock: the wait for it may have been long enough for a pause or another limit.
    perform pg_advisory_xact_lock(
      tidegate.queue_lock_key(p_queue, case p_stage when 'tx' then 'pacing' else 'concurrency' end)
    );
    v_locked := true;
  end loop;

  batch := p_batch;
  if v_concurrency is not null then
    batch := least(batch, v_concurrency - tidegate_internal.held_count(p_queue, tidegate.clock()));
  end if;
  -- Read after the count: a lease that the count treats as run out has ended by `now`, so its requests are reaped
  -- before later submissions are taken into their places.
  now := tidegate.clock();
  if v_per_seconds is not null then
    v_pacing := tidegate_internal.queue_counter(p_queue, 'pacing');
    select p.slots, p.tat_ns, p.interval_ns, p.tolerance_ns into v_slots, tat_ns, interval_ns, tolerance_ns
    from tidegate_internal.pacing_slots(pg_sequence_last_value(v_pacing), v_per_seconds, v_burst, now) as p;
    -- Stored even when nothing may be sent yet: an arrival time far ahead (the clock stepped back, the rate was raised)
    -- would be clamped again to the same distance at each claim, and stop the queue until the clock reaches it.
    if tat_ns < pg_sequence_last_value(v_pacing) then
      perform setval(v_pacing, tat_ns);
    end if;
    batch := least(batch, v_slots);
  end if;
  if v_barred and batch > 0 then
    breakers := tidegate_internal.breaker_admission(p_queue, p_stage, now);
    batch := least(batch, breakers.requests_max);
  end if;
  -- Random: a counter may be set back by a crash, and an old lease must never be taken for a new one.
  token := hashtextextended(gen_random_uuid()::text, 0);
end;
$$;
