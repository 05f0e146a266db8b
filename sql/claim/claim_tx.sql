-- claim_tx: processing → tx_in_flight, for up to `batch` requests of a tx queue, under one new lease each
--
-- Returns the requests to send, in the order of their messages, each with the time its send may start (`send_at`,
-- this database's clock; `claimed_at` is the same clock now). Commit before calling the downstream, synchronously:
-- a claim that a crash forgets would be sent twice.
--
-- `kinds` (null: all): requests of other kinds are left to other workers. Fewer rows than asked, or none, when fewer wait,
-- when the queue is paused, or when its rate allows no more within the next 100 ms. Messages that no longer stand for a
-- request in this stage are removed on the way. A request found in flight has lost its sender: it is handed out with
-- `attempt` > 1, so that the stage looks for a receipt first; with at_most_once semantics it ends as outcome_unknown.
-- `attempt` > `attempts_max` means: look, but do not send again.
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
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones, too.
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
  v_nonce    bigint;
  v_msg_ids  bigint[];
  v_ids      uuid[];
  v_found    record;
  v_go       uuid[];
  v_headers  jsonb;
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
    from tidegate_internal.pacing_slots(pg_sequence_last_value(v_pacing), v_queue.per_seconds, v_queue.burst, v_now) as p;
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
    v_breakers := tidegate_internal.enter_breakers(claim_tx.queue, 'tx', v_now);
    v_limit := least(v_limit, v_breakers.room);
    if v_limit = 0 then
      return;
    end if;
  end if;

  v_nonce := hashtextextended(gen_random_uuid()::text, 0);
  v_headers := jsonb_build_object(
    'nonce', v_nonce, 'worker', worker, 'lease_ms', ceil(extract(epoch from lease_for) * 1000)::bigint
  );
  if v_breakers is null then
    select t.msg_ids, t.ids into v_msg_ids, v_ids
    from tidegate_internal.take_messages(claim_tx.queue, v_limit, v_headers, v_now + lease_for, v_now, v_kinds) as t;
  else
    select t.msg_ids, t.ids into v_msg_ids, v_ids
    from tidegate_internal.take_past_breakers(
      claim_tx.queue, v_limit, v_headers, v_now + lease_for, v_now, v_kinds, v_breakers
    ) as t;
  end if;
  if v_msg_ids is null then
    return;
  end if;
  if v_pacing is not null then
    perform setval(v_pacing, v_tat_ns + cardinality(v_msg_ids) * v_gap_ns);
  end if;

  -- A row stands for its message only while it names it: anything else is a stray or a duplicate.
  select
    array_agg(f.id) filter (where f.fate = 'claim' or f.fate = 'lost') as go,
    array_agg(f.id) filter (where f.fate = 'lost') as lost,
    array_agg(f.id) filter (where f.fate in ('unknown', 'exhausted', 'expired')) as ended,
    array_agg(f.fate) filter (where f.fate in ('unknown', 'exhausted', 'expired')) as fates,
    array_agg(f.msg_id) filter (where f.fate not in ('claim', 'lost')) as removed
  into v_found
  from (
    select
      m.id, m.msg_id,
      case
        when r.id is null or r.req_status not in ('processing', 'tx_in_flight') then 'stray'
        when r.req_status = 'tx_in_flight' and (
          p.semantics = 'at_most_once'
          -- The lost send goes by the policy that it was begun under.
          or p.since > r.tx_in_flight_at
            and (tidegate_internal.policy_at(r.kind, 'tx', r.tx_in_flight_at)).semantics = 'at_most_once'
        ) then 'unknown'
        when r.tx_attempt - r.tx_unsent > p.attempts then 'exhausted'
        when r.deadline_at <= v_now then 'expired'
        when r.req_status = 'tx_in_flight' then 'lost'
        else 'claim'
      end as fate
    from unnest(v_ids, v_msg_ids) as m(id, msg_id)
    left join tidegate.request as r on r.id = m.id and r.queue = claim_tx.queue and r.msg_id = m.msg_id
    left join tidegate.policy_in_force as p on p.kind = r.kind and p.stage = 'tx'
  ) as f;

  if v_found.ended is not null then
    update tidegate.request as r
    set
      req_status = 'failure', transition_no = r.transition_no + 1, queue = null, msg_id = null,
      cause = case e.fate
        when 'unknown' then 'outcome_unknown' when 'expired' then 'deadline_exceeded' else 'attempts_exhausted'
      end,
      error = case e.fate
        when 'unknown' then tidegate_internal.error_json(
          'outcome_unknown', format('worker %s was lost while sending; the request may have been sent', r.worker), false)
        when 'expired' then tidegate_internal.error_json('deadline_exceeded', 'the deadline passed before it was answered', true)
        else tidegate_internal.error_json(
          'attempts_exhausted',
          case r.req_status
            when 'tx_in_flight' then format('worker %s was lost at attempt %s, the last one', r.worker, r.tx_attempt)
            else format('the policy allows no attempt after the %s made', r.tx_attempt)
          end,
          true)
      end
    from unnest(v_found.ended, v_found.fates) as e(id, fate)
    where r.id = e.id and r.req_status in ('processing', 'tx_in_flight');
  end if;
  if v_found.removed is not null then
    perform tidegate_internal.delete_messages(claim_tx.queue, v_found.removed, false);
  end if;

  if v_found.lost is not null then
    update tidegate.request as r
    set req_status = 'processing', transition_no = r.transition_no + 1, cause = 'recovered'
    where r.id = any(v_found.lost) and r.req_status = 'tx_in_flight';
  end if;

  v_go := v_found.go;
  if v_breakers.probing <> '{}' then
    perform tidegate_internal.note_probes('tx', v_breakers.probing, v_go, lease_for, v_now);
  end if;
  return query
    with claimed as (
      update tidegate.request as r
      set
        previous_status = r.req_status, req_status = 'tx_in_flight', transition_no = r.transition_no + 1, cause = 'claimed',
        tx_in_flight_at = tidegate.clock(), worker = claim_tx.worker, tx_attempt = r.tx_attempt + 1
      where r.id = any(v_go) and r.req_status = 'processing'
      returning r.msg_id, r.id, r.kind, r.payload, r.tx_attempt, r.tx_unsent, r.deadline_at, r.submitter
    )
    select
      row(claim_tx.queue, c.msg_id, v_nonce)::tidegate.lease, c.id, c.kind, c.payload, c.tx_attempt, p.attempts + c.tx_unsent,
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
    join tidegate.policy_in_force as p on p.kind = c.kind and p.stage = 'tx'
    order by c.msg_id;
end;
$$;

comment on function tidegate.claim_tx is
  'processing to tx_in_flight, under a lease: takes up to batch requests to send, no faster than the queue''s '
  'per_seconds; each may start at its send_at.';
select tidegate_internal.allow('claim_tx', '{worker,admin}');
