-- claim_tx: processing → tx_in_flight, under a lease: claims up to batch requests for sending, no faster than the
-- queue's rate limit; each send may start at its send_at.
--
-- Returns the requests to send, in the order of their messages, each with the time its send may start (`send_at`,
-- this database's clock; `claimed_at` is the same clock now). Commit before calling the downstream, synchronously:
-- a claim that a crash forgets would be sent twice.
--
-- `kinds` (null: all): requests of other kinds are left to other workers. Fewer rows than asked, or none, when fewer
-- wait, when the queue is paused, or when its rate allows no more within the next 100 ms. Stray messages (see
-- `remove_stray_messages`) are deleted on the way. A request whose worker was lost (its lease ran out) is handed out
-- again, before others, with `attempt` > 1, so that the stage searches for a receipt first; with at_most_once semantics
-- it ends as outcome_unknown. `attempt` > `attempts_max` means: search, but do not send again.
create or replace function tidegate.claim_tx(
  queue text, worker text, batch integer, lease_for interval, kinds text[] default null
)
  returns setof tidegate.claimed_request language plpgsql security definer
as $$
declare
  v_limits  tidegate.claim_limits;
  v_taken   tidegate.taken_messages;
  v_claimed integer;
  v_counted constant text := current_setting('tidegate.counted', true);
  v_done    text; -- for an assignment, which costs less than a statement
begin
  v_limits := tidegate_internal.claim_limits(claim_tx.queue, 'tx', batch, lease_for, kinds);
  if v_limits.batch <= 0 then
    return;
  end if;
  if v_limits.breakers is null then
    v_taken := tidegate_internal.take_messages(claim_tx.queue, v_limits.batch, v_limits.now, v_limits.kinds);
  else
    v_taken := tidegate_internal.take_unblocked(
      claim_tx.queue, v_limits.batch, v_limits.now, v_limits.kinds, v_limits.breakers
    );
  end if;
  if v_taken.ids is null then
    perform tidegate_internal.claim_finish(claim_tx.queue, 'tx', worker, lease_for, 0, v_limits, v_taken);
    return;
  end if;

  -- No row is claimed for a stray, a message whose request names another one or does not wait. Rows are locked in the
  -- order of their ids, as settles lock them: a settle whose lease has run out may hold some of them.
  v_done := set_config('tidegate.counted', pg_current_xact_id()::text, true);
  v_done := set_config('tidegate.declared', pg_current_xact_id()::text, true);
  return query
    with claimed as (
      update tidegate.request as r
      set
        previous_status = r.req_status, req_status = 'tx_in_flight', transition_no = r.transition_no + 1,
        cause = 'claimed', tx_in_flight_at = tidegate.clock(), worker = claim_tx.worker, tx_attempt = r.tx_attempt + 1,
        lease = v_limits.token
      from (
        select t.id, t.msg_id, t.place
        from unnest(v_taken.ids, v_taken.msg_ids) with ordinality as t(id, msg_id, place)
        order by t.id
      ) as t
      where r.id = any(array[t.id]) and r.msg_id = t.msg_id and r.queue = claim_tx.queue and r.req_status = 'processing'
        and r.lease is null and (r.deadline_at <= v_limits.now) is not true
        and (r.tx_attempt = r.tx_unsent or r.tx_attempt - r.tx_unsent <= (
          select case p.semantics when 'at_most_once' then 0 else p.attempts end
          from tidegate.policy_in_force as p
          where p.kind = r.kind and p.stage = 'tx'
        ))
      returning t.place, r.id, r.kind, r.payload, r.tx_attempt, r.tx_unsent, r.deadline_at, r.submitter,
        r.send_id, r.traceparent
    ), counted as (
      insert into tidegate.request_count_delta (kind, from_status, req_status, delta)
      select c.kind, 'processing', 'tx_in_flight', count(*)
      from claimed as c
      where pg_trigger_depth() = 0 -- inside a trigger, `request_history` counts
      group by c.kind
    )
    select
      row(claim_tx.queue, v_limits.token, c.id)::tidegate.lease, c.id, c.kind, c.payload, c.tx_attempt,
      p.attempts + c.tx_unsent,
      case
        when v_limits.tat_ns is null then v_limits.now
        else greatest(v_limits.now, to_timestamp((
          v_limits.tat_ns + (c.place - 1) * v_limits.interval_ns - v_limits.tolerance_ns
        ) / 1000 / 1000000.0))
      end,
      v_limits.now, c.deadline_at, c.submitter,
      -- A call may last until the request's deadline at most.
      case
        when c.deadline_at >= v_limits.now + p.timeout_ms * interval '1 ms' then p.timeout_ms
        else greatest(1, ceil(extract(epoch from c.deadline_at - v_limits.now) * 1000))::integer
      end, v_limits.tat_ns is not null,
      p.hedge_after_ms, p.hedge_max, p.hedge_share, p.connect_ms, p.first_byte_ms, p.body_ms, p.version,
      coalesce(c.kind = any((v_limits.breakers).probed), false), p.timeout_mode = 'adaptive', c.send_id,
      c.traceparent, case when c.traceparent is not null then tidegate_internal.begins_trace(c.id, c.tx_attempt) end
    -- Sorted before the join, which keeps the order, while the rows are narrow.
    from (select * from claimed as c order by c.place) as c
    join tidegate.policy_in_force as p on p.kind = c.kind and p.stage = 'tx'
    order by c.place;
  get diagnostics v_claimed = row_count;
  v_done := set_config('tidegate.declared', '', true);
  v_done := set_config('tidegate.counted', v_counted, true);
  v_done := tidegate_internal.claim_finish(claim_tx.queue, 'tx', worker, lease_for, v_claimed, v_limits, v_taken);
end;
$$;
select tidegate_internal.allow('claim_tx', '{worker,admin}');
select tidegate_internal.plan_along_indexes('claim_tx', 'sort');
