-- recover_queue: The writing half of `recover`, for requests of one queue; returns how many were renumbered.
--
-- The caller has locked the messages and the rows. `p_reset_ids` go back to processing. `p_freed` are numbers of lost
-- claims, which are put back for the requests `p_freed_ids`. `p_missing_ids` are requests without a message in
-- `p_target_queue`, `p_missing_msg_ids` the numbers that they name. `p_ended_ids` end by `p_ended_fates`, and `p_done`
-- are their messages. A queue that was dropped and made again numbers from 1, so its sequence is first set beyond every
-- number of rows and messages; a number that another request's message has by now is replaced by a fresh one.
create or replace function tidegate_internal.recover_queue(
  p_queue text, p_target_queue text, p_reset_ids uuid[], p_freed_ids uuid[], p_freed bigint[], p_missing_ids uuid[],
  p_missing_msg_ids bigint[], p_ended_ids uuid[], p_ended_fates text[], p_done bigint[]
)
  returns bigint language plpgsql
as $$
declare
  v_sequence   constant regclass := tidegate_internal.queue_sequence(p_target_queue);
  v_is_own     constant boolean := p_queue is not distinct from p_target_queue;
  v_greatest   bigint;
  v_taken      boolean;
  v_placed     bigint[];
  v_renumbered bigint := 0;
begin
  perform tidegate_internal.put_back(p_queue, p_freed, p_freed_ids);
  update tidegate.request as r
  set req_status = 'processing', transition_no = r.transition_no + 1, cause = 'recovered', lease = null
  where r.id = any(p_reset_ids) and r.req_status = 'tx_in_flight';
  if p_missing_ids is not null then
    update tidegate.request as r
    set previous_status = r.req_status, lease = null
    where r.id = any(p_missing_ids) and r.lease is not null;
    perform pg_advisory_xact_lock(tidegate.queue_lock_key(p_target_queue, 'watermark'));
    execute format(
      $sql$
        select max(msg_id), coalesce(bool_or(msg_id = any($1)), false)
        from %1$s
        where msg_id = any($1) or msg_id = (select max(msg_id) from %1$s)
      $sql$,
      tidegate_internal.queue_table(p_target_queue)
    ) into v_greatest, v_taken using p_missing_msg_ids;
    if v_is_own then
      v_greatest := greatest(v_greatest, (select max(m) from unnest(p_missing_msg_ids) as m));
      -- Either condition shows that the queue was made again. Rows of later batches count too, or a fresh number would
      -- be one of theirs. A scan of all requests, but only now.
      if v_taken or v_greatest > coalesce(pg_sequence_last_value(v_sequence), 0) then
        select greatest(v_greatest, max(r.msg_id)) into v_greatest from tidegate.request as r
          where r.queue = p_target_queue;
      end if;
    end if;
    if v_greatest > coalesce(pg_sequence_last_value(v_sequence), 0) then
      perform setval(v_sequence, v_greatest);
    end if;

    perform tidegate_internal.revive_numbers(p_target_queue, cardinality(p_missing_ids));
    -- Only a number drawn from this very queue is the request's own.
    if (select q.fair_by is not null from tidegate.queue as q where q.name = p_target_queue) then
      select tidegate_internal.put_back_to_turns(p_target_queue, array_agg(m.msg_id), array_agg(m.id), null)
      into v_placed
      from unnest(p_missing_ids, p_missing_msg_ids) as m(id, msg_id)
      where m.msg_id is not null and v_is_own
      having count(*) > 0;
    else
      execute format(
        $sql$
          with placed as (
            insert into %s (msg_id, vt, message)
            overriding system value
            select m.msg_id, '-infinity', jsonb_build_object('id', m.id)
            from unnest($1, $2) as m(id, msg_id)
            where m.msg_id is not null and $3
            order by m.msg_id
            on conflict (msg_id) do nothing
            returning msg_id
          )
          select array_agg(placed.msg_id) from placed
        $sql$,
        tidegate_internal.queue_table(p_target_queue)
      ) into v_placed using p_missing_ids, p_missing_msg_ids, v_is_own;
    end if;
    perform tidegate_internal.watermark_lower(p_target_queue, (select min(m) from unnest(v_placed) as m));

    with moved as (
      update tidegate.request as r
      set queue = p_target_queue, msg_id = nextval(v_sequence)
      from unnest(p_missing_ids, p_missing_msg_ids) as m(id, msg_id)
      where r.id = m.id and (m.msg_id is null or m.msg_id <> all(coalesce(v_placed, '{}')))
      returning r.id, r.msg_id
    )
    select
      count(*),
      tidegate_internal.send_messages(p_target_queue, array_agg(m.id order by m.msg_id),
        array_agg(m.msg_id order by m.msg_id))
    into v_renumbered
    from moved as m
    having count(*) > 0;
  end if;
  -- Last: deleting may wait for the drain lock of the queue, which comes after the watermark lock.
  if p_ended_ids is not null then
    perform tidegate_internal.end_unclaimable(p_ended_ids, p_ended_fates);
    perform tidegate_internal.delete_messages(p_queue, p_done);
    if p_queue is not null then
      perform tidegate_internal.gate_evaluate(p_queue, 'too_many_requests');
    end if;
  end if;
  return coalesce(v_renumbered, 0);
end;
$$;
