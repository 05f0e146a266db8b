-- end_requests: Moves requests to a terminal status, held or not, and deletes their messages; returns those that moved.
--
-- For `cancel`, the operators' functions and the deadline sweeps, which have no lease. Locks the messages first, as a
-- claim does, and then moves the rows that still have a status of `p_from` and still name the same message. A held
-- request has no message to lock; its row names no lease token afterwards, so the holder's settle moves nothing.
-- `p_causes` has the cause for each status of `p_from`; without `p_error`, the error is that of an operator's call. To
-- end more than one request, call `lock_recovery_shared` first. `p_locked`: the caller has or may have locked the rows;
-- to wait for a message that was put back in between would be a deadlock. `p_taken_back`: the downstream has
-- taken back its receipt, so the requests were not executed.
create or replace function tidegate_internal.end_requests(
  p_ids uuid[], p_from tidegate.request_status[], p_to tidegate.request_status, p_causes text[], p_error jsonb,
  p_locked boolean default false, p_taken_back boolean default false
)
  returns table (id uuid, req_status tidegate.request_status) language plpgsql
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_seen  record;
  v_moved record;
  v_queue text;
  v_unlocked bigint[];
begin
  select array_agg(r.id) as ids, array_agg(r.queue) as queues, array_agg(r.msg_id) as msg_ids into v_seen
  from tidegate.request as r
  where r.id = any(p_ids) and r.req_status = any(p_from);
  if v_seen.ids is null then
    return;
  end if;
  if not p_locked then
    perform tidegate_internal.lock_messages(v_seen.queues, v_seen.msg_ids);
  end if;

  with ordered as materialized (
    -- Locked in id order, because requests without a message may be those of two sweeps, or of a settle.
    select r.id, s.queue, s.msg_id
    from unnest(v_seen.ids, v_seen.queues, v_seen.msg_ids) as s(id, queue, msg_id)
    join tidegate.request as r on r.id = any(array[s.id])
    where r.req_status = any(p_from) and r.queue is not distinct from s.queue and r.msg_id is not distinct from s.msg_id
      and exists (
        select
        from tidegate.transition_rule as t
        where t.flow = r.flow and t.from_status = r.req_status and t.to_status = p_to
          and t.cause = p_causes[array_position(p_from, r.req_status)]
      )
    order by s.id
    for update of r
  ), moved as (
    update tidegate.request as r
    set
      req_status = p_to, previous_status = r.req_status, transition_no = r.transition_no + 1,
      finished_at = tidegate.clock(), queue = null, msg_id = null, lease = null, ended_lease = r.lease,
      cause = p_causes[array_position(p_from, r.req_status)],
      error = tidegate_internal.final_error(
        coalesce(
          p_error,
          tidegate_internal.error_json(p_causes[array_position(p_from, r.req_status)], 'ended by the operator', true)
        ),
        r.error, r, case when p_taken_back then r.tx_attempt else r.tx_unsent end, not p_taken_back
      )
    from ordered as o
    where r.id = any(array[o.id])
    returning r.id, o.queue, o.msg_id
  )
  select array_agg(m.id) as ids, array_agg(m.queue) as queues, array_agg(m.msg_id) as msg_ids into v_moved
  from moved as m;
  if p_taken_back then
    perform from tidegate_internal.establish(v_moved.ids, 'no', 'receipt_taken_back');
  end if;

  for v_queue in
    select distinct q from unnest(v_moved.queues) as q join tidegate.queue as known on known.name = q order by q
  loop
    -- In a queue that was made again another request's message may have the number: it stays. A message that was put
    -- back since the first read may be locked by a transaction that waits for this request's row. It is skipped,
    -- because to wait for it would be a deadlock; a claim deletes it later as a stray.
    execute format(
      $sql$
        select array_agg(u.msg_id)
        from (
          select m.msg_id
          from unnest($1, $2, $3) as ended(id, queue, msg_id)
          join %1$s as m on m.msg_id = ended.msg_id and tidegate.message_request_id(m.message) = ended.id
          where ended.queue = $4
          for update of m skip locked
        ) as u
      $sql$,
      tidegate_internal.queue_table(v_queue)
    ) into v_unlocked using v_moved.ids, v_moved.queues, v_moved.msg_ids, v_queue;
    perform tidegate_internal.delete_messages(v_queue, v_unlocked);
    perform tidegate_internal.gate_evaluate(v_queue, 'too_many_requests') where v_unlocked is null;
  end loop;
  return query select unnest(v_moved.ids), p_to;
end;
$$;
select tidegate_internal.plan_along_indexes('end_requests');
