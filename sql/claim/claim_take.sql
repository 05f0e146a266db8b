-- claim_take: Takes the messages of one claim out of a queue, as many as `p_batch`, the limits of the queue and the
-- breakers of its kinds allow; `ids` is null when there are none.
--
-- Returns the messages' numbers and request ids, and the input of `claim_readiness`, `claim_tx` and `claim_finish`: a
-- new lease token, the instant of the claim, its limit and kinds, the breakers, the values of `take_messages` for the
-- watermarks, and those of `pacing_slots` in a queue with a rate limit. In a queue with a limit, the lock `pacing` (tx)
-- or `concurrency` (readiness) is held to the end of the transaction, so that no other claim reads the arrival time, or
-- counts the held requests, before this claim has changed them.
create or replace function tidegate_internal.claim_take(
  p_queue text, p_stage tidegate.stage, p_batch integer, p_lease_for interval, p_kinds text[],
  out msg_ids bigint[], out ids uuid[], out token bigint, out now timestamptz, out batch integer,
  out kinds text[], out breakers tidegate.breaker_limits, out reaped boolean, out mark bigint,
  out start bigint, out first bigint, out due_from timestamptz, out due_to timestamptz,
  out tat_ns bigint, out interval_ns bigint, out tolerance_ns bigint
)
  language plpgsql as $$
declare
  v_queue  tidegate.queue := tidegate_internal.require_queue(p_queue, p_stage);
  v_pacing regclass;
  v_slots  integer;
begin
  perform tidegate_internal.require_lease_time(p_lease_for);
  perform tidegate_internal.require_read_committed('claim_' || p_stage);
  -- Null if all kinds of the queue are taken: then `take_messages` need not read each request for its kind.
  kinds := tidegate_internal.kinds_left(p_queue, p_stage, p_kinds);
  batch := greatest(p_batch, 0);
  if v_queue.paused or batch = 0 or 0 in (v_queue.per_seconds, v_queue.max_concurrency) then
    return;
  end if;

  if v_queue.per_seconds is not null or v_queue.max_concurrency is not null then
    perform pg_advisory_xact_lock(
      tidegate.queue_lock_key(p_queue, case p_stage when 'tx' then 'pacing' else 'concurrency' end)
    );
    -- Read again: the wait for the lock may have been long enough for a pause or another limit.
    v_queue := tidegate_internal.require_queue(p_queue, p_stage);
    if v_queue.paused or 0 in (v_queue.per_seconds, v_queue.max_concurrency) then
      return;
    end if;
  end if;
  if v_queue.max_concurrency is not null then
    batch := least(batch, v_queue.max_concurrency - tidegate_internal.held_count(p_queue, tidegate.clock()));
  end if;
  -- Read after the count: a lease that the count treats as run out has ended by `now`, so its requests are reaped
  -- before later submissions are taken into their places.
  now := tidegate.clock();
  if v_queue.per_seconds is not null then
    v_pacing := tidegate_internal.queue_counter(p_queue, 'pacing');
    select p.slots, p.tat_ns, p.interval_ns, p.tolerance_ns into v_slots, tat_ns, interval_ns, tolerance_ns
    from tidegate_internal.pacing_slots(pg_sequence_last_value(v_pacing), v_queue.per_seconds, v_queue.burst, now) as p;
    -- Stored even when nothing may be sent yet: an arrival time far ahead (the clock stepped back, the rate was raised)
    -- would be clamped again to the same distance at each claim, and stop the queue until the clock reaches it.
    if tat_ns < pg_sequence_last_value(v_pacing) then
      perform setval(v_pacing, tat_ns);
    end if;
    batch := least(batch, v_slots);
  end if;
  if batch <= 0 then
    return;
  end if;

  if exists (select from tidegate.breaker as b where b.stage = p_stage and b.state <> 'closed') then
    breakers := tidegate_internal.breaker_admission(p_queue, p_stage, now);
    batch := least(batch, breakers.requests_max);
    if batch = 0 then
      return;
    end if;
  end if;

  -- Random: a counter may be set back by a crash, and an old lease must never be taken for a new one.
  token := hashtextextended(gen_random_uuid()::text, 0);
  if breakers is null then
    select t.* into msg_ids, ids, reaped, mark, start, first, due_from, due_to
    from tidegate_internal.take_messages(p_queue, batch, now, kinds) as t;
  else
    select t.* into msg_ids, ids, reaped, mark, start, first, due_from, due_to
    from tidegate_internal.take_unblocked(p_queue, batch, now, kinds, breakers) as t;
  end if;
  if ids is null then
    perform tidegate_internal.watermarks_advance(p_queue, batch, kinds, now, 0, mark, start, first, due_from, due_to);
  elsif v_pacing is not null then
    perform setval(v_pacing, tat_ns + cardinality(ids) * interval_ns);
  end if;
end;
$$;
