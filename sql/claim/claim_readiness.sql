-- claim_readiness: Claims up to batch queued requests for their readiness check, under a lease; the fleet holds at most
-- the queue's max_concurrency at once.
--
-- The status stays `queued`: the request's row names the lease token. The limit holds across the fleet, because a claim
-- counts the held requests and takes more under one lock per queue; the slots of a lost worker are free again when its
-- lease has run out. `kinds` (null: all): requests of other kinds are left to other workers. Returns fewer rows than
-- `batch`, or none, when fewer wait, no slot is free, a breaker blocks them or the queue is paused. Requests past a
-- deadline and those without an attempt left end on the way. The columns are those of `claim_tx`; a check is not paced,
-- so `send_at` is the instant of the claim. Commit before the checks begin: until then other claims may wait for the
-- lock, and a rollback would free the requests for a second check at the same time.
create or replace function tidegate.claim_readiness(
  queue text, worker text, batch integer, lease_for interval, kinds text[] default null
)
  returns setof tidegate.claimed_request language plpgsql security definer
as $$
declare
  v_limits  tidegate.claim_limits;
  v_taken   tidegate.taken_messages;
  v_claimed integer;
  v_done    text; -- for an assignment, which costs less than a statement
begin
  v_limits := tidegate_internal.claim_limits(claim_readiness.queue, 'readiness', batch, lease_for, kinds);
  if v_limits.batch <= 0 then
    return;
  end if;
  if v_limits.breakers is null then
    v_taken := tidegate_internal.take_messages(claim_readiness.queue, v_limits.batch, v_limits.now, v_limits.kinds);
  else
    v_taken := tidegate_internal.take_unblocked(
      claim_readiness.queue, v_limits.batch, v_limits.now, v_limits.kinds, v_limits.breakers
    );
  end if;
  if v_taken.ids is null then
    perform tidegate_internal.claim_finish(claim_readiness.queue, 'readiness', worker, lease_for, 0, v_limits, v_taken);
    return;
  end if;

  -- No row is claimed for a stray, a message whose request names another one or does not wait. Rows are locked in the
  -- order of their ids, as settles lock them: a settle whose lease has run out may hold some of them.
  v_done := set_config('tidegate.declared', pg_current_xact_id()::text, true);
  return query
    with claimed as (
      update tidegate.request as r
      set
        previous_status = r.req_status, worker = claim_readiness.worker, readiness_attempt = r.readiness_attempt + 1,
        lease = v_limits.token
      from (select t.id, t.msg_id from unnest(v_taken.ids, v_taken.msg_ids) as t(id, msg_id) order by t.id) as t
      where r.id = any(array[t.id]) and r.msg_id = t.msg_id and r.queue = claim_readiness.queue
        and r.req_status = 'queued'
        and r.lease is null and (least(r.readiness_deadline_at, r.deadline_at) <= v_limits.now) is not true
        and (r.readiness_attempt = 0 or r.readiness_attempt - r.readiness_waits < (
          select p.attempts from tidegate.policy_in_force as p where p.kind = r.kind and p.stage = 'readiness'
        ))
      returning r.msg_id, r.id, r.kind, r.payload, r.readiness_attempt, r.readiness_waits, r.deadline_at, r.submitter,
        r.traceparent
    )
    select
      row(claim_readiness.queue, v_limits.token, c.id)::tidegate.lease, c.id, c.kind, c.payload, c.readiness_attempt,
      p.attempts + c.readiness_waits, v_limits.now, v_limits.now, c.deadline_at, c.submitter,
      -- A call may last until the request's deadline at most.
      case
        when c.deadline_at >= v_limits.now + p.timeout_ms * interval '1 ms' then p.timeout_ms
        else greatest(1, ceil(extract(epoch from c.deadline_at - v_limits.now) * 1000))::integer
      end, false,
      p.hedge_after_ms, p.hedge_max, p.hedge_share, p.connect_ms, p.first_byte_ms, p.body_ms, p.version,
      coalesce(c.kind = any((v_limits.breakers).probed), false), p.timeout_mode = 'adaptive', null::uuid,
      c.traceparent,
      case when c.traceparent is not null then tidegate_internal.begins_trace(c.id, c.readiness_attempt) end
    -- Sorted before the join, which keeps the order, while the rows are narrow.
    from (select * from claimed as c order by c.msg_id) as c
    join tidegate.policy_in_force as p on p.kind = c.kind and p.stage = 'readiness'
    order by c.msg_id;
  get diagnostics v_claimed = row_count;
  v_done := set_config('tidegate.declared', '', true);
  perform tidegate_internal.claim_finish(
    claim_readiness.queue, 'readiness', worker, lease_for, v_claimed, v_limits, v_taken
  );
end;
$$;
select tidegate_internal.allow('claim_readiness', '{worker,admin}');
select tidegate_internal.plan_along_indexes('claim_readiness', 'sort');
