-- claim_readiness: Takes up to batch queued requests for their check, under a lease; no more at once than the queue's
-- max_concurrency.
--
-- The status stays `queued`: the request's row names the lease. Never more than the queue's max_concurrency are held at
-- once, across the fleet, because counting and taking happen under one lock per queue; the slot of a dead worker comes
-- back with its lease. `kinds` (null: all): requests of other kinds are left to other workers. Returns fewer rows than
-- asked, or none, when fewer wait, no slot is free or the queue is paused. Commit before checking anything.
create or replace function tidegate.claim_readiness(
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
  v_queue    tidegate.queue := tidegate_internal.require_queue(claim_readiness.queue, 'readiness');
  v_limit    integer := greatest(claim_readiness.batch, 0);
  v_held     bigint;
  v_now      timestamptz;
  -- Random: a counter may be set back by a crash, and an old lease must never be taken for a new one.
  v_token    bigint := hashtextextended(gen_random_uuid()::text, 0);
  v_taken    record;
  v_claimed  integer;
  v_breakers tidegate.breakers_seen;
  v_kinds    text[];
begin
  perform tidegate_internal.require_lease_time(lease_for);
  perform tidegate_internal.require_read_committed('claim_readiness');
  -- Null where all of the queue's kinds are taken: then no request is looked at for its kind.
  if claim_readiness.kinds is not null then
    v_kinds := tidegate_internal.kinds_left(claim_readiness.queue, 'readiness', claim_readiness.kinds);
  end if;
  if v_queue.paused or v_limit = 0 or v_queue.max_concurrency = 0 then
    return;
  end if;

  if v_queue.max_concurrency is not null then
    perform pg_advisory_xact_lock(tidegate.queue_lock_key(claim_readiness.queue, 'concurrency'));
    -- Looked at again: the wait may have been long enough for a pause or another limit.
    v_queue := tidegate_internal.require_queue(claim_readiness.queue, 'readiness');
    if v_queue.paused then
      return;
    end if;
    v_held := tidegate_internal.held_count(claim_readiness.queue, tidegate.clock());
    v_limit := least(v_limit, v_queue.max_concurrency - v_held);
    if v_limit <= 0 then
      return;
    end if;
  end if;
  -- After the count: a lease that it saw as run out is to be taken before what was submitted later.
  v_now := tidegate.clock();

  if exists (select from tidegate.breaker as b where b.stage = 'readiness' and b.state <> 'closed') then
    v_breakers := tidegate_internal.breaker_admission(claim_readiness.queue, 'readiness', v_now);
    v_limit := least(v_limit, v_breakers.room);
    if v_limit = 0 then
      return;
    end if;
  end if;

  if v_breakers is null then
    select * into v_taken from tidegate_internal.take_messages(claim_readiness.queue, v_limit, v_now, v_kinds);
  else
    select * into v_taken
    from tidegate_internal.take_unblocked(claim_readiness.queue, v_limit, v_now, v_kinds, v_breakers);
  end if;
  if v_taken.msg_ids is null then
    perform tidegate_internal.watermarks_advance(
      claim_readiness.queue, v_limit, v_kinds, v_now, 0, v_taken.mark, v_taken.start, v_taken.first, v_taken.due_from,
      v_taken.due_to
    );
    return;
  end if;

  -- A row stands for its message only while it names it and waits. Rows are locked in the order of their ids, because a
  -- settle that comes too late may hold some of them.
  return query
    with claimed as (
      update tidegate.request as r
      set
        previous_status = r.req_status, worker = claim_readiness.worker, readiness_attempt = r.readiness_attempt + 1,
        lease = v_token
      from (select t.id, t.msg_id from unnest(v_taken.ids, v_taken.msg_ids) as t(id, msg_id) order by t.id) as t
      where r.id = any(array[t.id]) and r.msg_id = t.msg_id and r.queue = claim_readiness.queue
        and r.req_status = 'queued'
        and r.lease is null and (least(r.readiness_deadline_at, r.deadline_at) <= v_now) is not true
        and (r.readiness_attempt = 0 or r.readiness_attempt - r.readiness_waits < (
          select p.attempts from tidegate.policy_in_force as p where p.kind = r.kind and p.stage = 'readiness'
        ))
      returning r.msg_id, r.id, r.kind, r.payload, r.readiness_attempt, r.readiness_waits, r.deadline_at, r.submitter
    ), noted as (
      -- The last one first, because settles mostly go in the order of the claim (see `end_leases`).
      insert into tidegate.claim (token, queue, worker, claimed_at, until, lease_ms, ids)
      select
        v_token, claim_readiness.queue, claim_readiness.worker, tidegate.clock(), tidegate.clock() + lease_for,
        ceil(extract(epoch from lease_for) * 1000)::bigint, array_agg(c.id order by c.msg_id desc)
      from claimed as c
      having count(*) > 0
    ), policies as materialized (
      -- Read once; a lookup for each request costs more.
      select * from tidegate.policy_in_force as p where p.stage = 'readiness'
    )
    select
      row(claim_readiness.queue, v_token, c.id)::tidegate.lease, c.id, c.kind, c.payload, c.readiness_attempt,
      p.attempts + c.readiness_waits, v_now, v_now, c.deadline_at, c.submitter,
      -- A call goes on no longer than its request.
      case
        when c.deadline_at >= v_now + p.timeout_ms * interval '1 ms' then p.timeout_ms
        else greatest(1, ceil(extract(epoch from c.deadline_at - v_now) * 1000))::integer
      end, false,
      p.hedge_after_ms, p.hedge_max, p.hedge_share, p.connect_ms, p.first_byte_ms, p.body_ms, p.version,
      coalesce(c.kind = any(v_breakers.probing), false), p.timeout_mode = 'adaptive'
    from claimed as c
    join policies as p on p.kind = c.kind
    order by c.msg_id;
  get diagnostics v_claimed = row_count;

  if v_breakers.probing <> '{}' then
    perform tidegate_internal.breaker_count_probes(
      'readiness', v_breakers.probing,
      array(select r.id from tidegate.request as r where r.id = any(v_taken.ids) and r.lease = v_token), lease_for,
      v_now
    );
  end if;
  if v_claimed < cardinality(v_taken.msg_ids) then
    perform tidegate_internal.end_unclaimed(claim_readiness.queue, 'readiness', v_taken.msg_ids, v_taken.ids, v_now);
  end if;
  perform tidegate_internal.watermarks_advance(
    claim_readiness.queue, v_limit, v_kinds, v_now, cardinality(v_taken.msg_ids), v_taken.mark, v_taken.start,
    v_taken.first, v_taken.due_from, v_taken.due_to
  );
  -- Now that the rows of what it has taken name their lease, and count.
  if v_claimed < cardinality(v_taken.msg_ids) or v_taken.reaped then
    perform tidegate_internal.gate_evaluate(claim_readiness.queue, 'too_many_requests');
  end if;
end;
$$;
select tidegate_internal.allow('claim_readiness', '{worker,admin}');
