-- claim_tx: processing → tx_in_flight, under a lease: claims up to batch requests for sending, no faster than the
-- queue's rate limit; each send may start at its send_at.
--
-- Returns the requests to send, in the order of their messages, each with the time its send may start (`send_at`,
-- this database's clock; `claimed_at` is the same clock now). Commit before calling the downstream, synchronously:
-- a claim that a crash forgets would be sent twice.
--
-- `kinds` (null: all): requests of other kinds are left to other workers. Fewer rows than asked, or none, when fewer
-- wait, when the queue is paused, or when its rate allows no more within the next 100 ms. Messages that no longer stand
-- for a request in this stage are removed on the way. A request whose sender was lost (its lease ran out) is handed out
-- again, before others, with `attempt` > 1, so that the stage looks for a receipt first; with at_most_once semantics it
-- ends as outcome_unknown. `attempt` > `attempts_max` means: look, but do not send again.
create or replace function tidegate.claim_tx(
  queue     text,
  worker    text,
  batch     integer,
  lease_for interval,
  kinds     text[] default null
)
  returns table (
    lease          tidegate.lease,
    id             uuid,
    kind           text,
    payload        jsonb,
    attempt        integer,
    attempts_max   integer,
    send_at        timestamptz,
    claimed_at     timestamptz,
    deadline_at    timestamptz,
    submitter      text,
    timeout_ms     integer,
    paced          boolean,
    hedge_after_ms integer,
    hedge_max      integer,
    hedge_share    numeric,
    connect_ms     integer,
    first_byte_ms  integer,
    body_ms        integer,
    policy_version integer,
    probe          boolean,
    adaptive       boolean
  )
  language plpgsql
  security definer
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones,
  -- too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_queue    tidegate.queue := tidegate_internal.require_queue(claim_tx.queue, 'tx');
  v_pacing   regclass;
  v_slots    integer;
  v_tat_ns   bigint;
  v_gap_ns   bigint;
  v_burst_ns bigint;
  v_limit    integer := greatest(claim_tx.batch, 0);
  v_now      timestamptz;
  -- Random: a counter may be set back by a crash, and an old lease must never be taken for a new one.
  v_token    bigint := hashtextextended(gen_random_uuid()::text, 0);
  v_taken    record;
  v_claimed  integer;
  v_breakers tidegate.breakers_seen;
  v_kinds    text[];
begin
  perform tidegate_internal.require_lease_time(lease_for);
  perform tidegate_internal.require_read_committed('claim_tx');
  -- Null where all of the queue's kinds are taken: then no request is looked at for its kind.
  if claim_tx.kinds is not null then
    v_kinds := tidegate_internal.kinds_left(claim_tx.queue, 'tx', claim_tx.kinds);
  end if;
  if v_queue.paused or v_limit = 0 or v_queue.per_seconds = 0 then
    return;
  end if;

  if v_queue.per_seconds is not null then
    -- Held to the end of the transaction: nobody else may read the arrival time before this claim has moved it.
    perform pg_advisory_xact_lock(tidegate.queue_lock_key(claim_tx.queue, 'pacing'));
    -- Looked at again: the wait may have been long enough for a pause or another rate.
    v_queue := tidegate_internal.require_queue(claim_tx.queue, 'tx');
    if v_queue.paused or v_queue.per_seconds = 0 then
      return;
    end if;
    v_pacing := tidegate_internal.queue_counter(claim_tx.queue, 'pacing');
    v_now := tidegate.clock();
    select p.slots, p.tat_ns, p.interval_ns, p.tolerance_ns into v_slots, v_tat_ns, v_gap_ns, v_burst_ns
    from tidegate_internal.pacing_slots(pg_sequence_last_value(v_pacing), v_queue.per_seconds, v_queue.burst,
      v_now) as p;
    -- Stored even when nothing may be sent yet: an arrival time far ahead (the clock stepped back, the rate was raised)
    -- would be brought back to the same distance at each claim, and stop the queue until the clock gets there.
    if v_tat_ns < pg_sequence_last_value(v_pacing) then
      perform setval(v_pacing, v_tat_ns);
    end if;
    v_limit := least(v_limit, v_slots);
    if v_limit = 0 then
      return;
    end if;
  else
    v_now := tidegate.clock();
  end if;

  if exists (select from tidegate.breaker as b where b.stage = 'tx' and b.state <> 'closed') then
    v_breakers := tidegate_internal.breaker_admission(claim_tx.queue, 'tx', v_now);
    v_limit := least(v_limit, v_breakers.room);
    if v_limit = 0 then
      return;
    end if;
  end if;

  if v_breakers is null then
    select * into v_taken from tidegate_internal.take_messages(claim_tx.queue, v_limit, v_now, v_kinds);
  else
    select * into v_taken
    from tidegate_internal.take_unblocked(claim_tx.queue, v_limit, v_now, v_kinds, v_breakers);
  end if;
  if v_taken.msg_ids is null then
    perform tidegate_internal.watermarks_advance(
      claim_tx.queue, v_limit, v_kinds, v_now, 0, v_taken.mark, v_taken.start, v_taken.first, v_taken.due_from,
      v_taken.due_to
    );
    return;
  end if;
  if v_pacing is not null then
    perform setval(v_pacing, v_tat_ns + cardinality(v_taken.msg_ids) * v_gap_ns);
  end if;

  -- A row stands for its message only while it names it and waits. Rows are locked in the order of their ids, because a
  -- settle that comes too late may hold some of them.
  return query
    with claimed as (
      update tidegate.request as r
      set
        previous_status = r.req_status, req_status = 'tx_in_flight', transition_no = r.transition_no + 1,
        cause = 'claimed',
        tx_in_flight_at = tidegate.clock(), worker = claim_tx.worker, tx_attempt = r.tx_attempt + 1, lease = v_token
      from (select t.id, t.msg_id from unnest(v_taken.ids, v_taken.msg_ids) as t(id, msg_id) order by t.id) as t
      where r.id = any(array[t.id]) and r.msg_id = t.msg_id and r.queue = claim_tx.queue and r.req_status = 'processing'
        and r.lease is null and (r.deadline_at <= v_now) is not true
        and (r.tx_attempt = r.tx_unsent or r.tx_attempt - r.tx_unsent <= (
          select p.attempts from tidegate.policy_in_force as p where p.kind = r.kind and p.stage = 'tx'
        ))
      returning r.msg_id, r.id, r.kind, r.payload, r.tx_attempt, r.tx_unsent, r.deadline_at, r.submitter
    ), noted as (
      -- The last one first, because settles mostly go in the order of the claim (see `end_leases`).
      insert into tidegate.claim (token, queue, worker, claimed_at, until, lease_ms, ids)
      select
        v_token, claim_tx.queue, claim_tx.worker, tidegate.clock(), tidegate.clock() + lease_for,
        ceil(extract(epoch from lease_for) * 1000)::bigint, array_agg(c.id order by c.msg_id desc)
      from claimed as c
      having count(*) > 0
    ), policies as materialized (
      -- Read once; a lookup for each request costs more.
      select * from tidegate.policy_in_force as p where p.stage = 'tx'
    )
    select
      row(claim_tx.queue, v_token, c.id)::tidegate.lease, c.id, c.kind, c.payload, c.tx_attempt,
      p.attempts + c.tx_unsent,
      case
        when v_pacing is null then v_now
        else greatest(v_now, to_timestamp((
          v_tat_ns + (row_number() over (order by c.msg_id) - 1) * v_gap_ns - v_burst_ns
        ) / 1000 / 1000000.0))
      end,
      v_now, c.deadline_at, c.submitter,
      -- A call goes on no longer than its request.
      case
        when c.deadline_at >= v_now + p.timeout_ms * interval '1 ms' then p.timeout_ms
        else greatest(1, ceil(extract(epoch from c.deadline_at - v_now) * 1000))::integer
      end, v_pacing is not null,
      p.hedge_after_ms, p.hedge_max, p.hedge_share, p.connect_ms, p.first_byte_ms, p.body_ms, p.version,
      coalesce(c.kind = any(v_breakers.probing), false), p.timeout_mode = 'adaptive'
    from claimed as c
    join policies as p on p.kind = c.kind
    order by c.msg_id;
  get diagnostics v_claimed = row_count;

  if v_breakers.probing <> '{}' then
    perform tidegate_internal.breaker_count_probes(
      'tx', v_breakers.probing,
      array(select r.id from tidegate.request as r where r.id = any(v_taken.ids) and r.lease = v_token), lease_for,
      v_now
    );
  end if;
  if v_claimed < cardinality(v_taken.msg_ids) then
    perform tidegate_internal.end_unclaimed(claim_tx.queue, 'tx', v_taken.msg_ids, v_taken.ids, v_now);
  end if;
  perform tidegate_internal.watermarks_advance(
    claim_tx.queue, v_limit, v_kinds, v_now, cardinality(v_taken.msg_ids), v_taken.mark, v_taken.start, v_taken.first,
    v_taken.due_from, v_taken.due_to
  );
  -- Now that the rows of what it has taken name their lease, and count.
  if v_claimed < cardinality(v_taken.msg_ids) or v_taken.reaped then
    perform tidegate_internal.gate_evaluate(claim_tx.queue, 'too_many_requests');
  end if;
end;
$$;
select tidegate_internal.allow('claim_tx', '{worker,admin}');
