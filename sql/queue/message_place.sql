-- message_place: The place of a request in its queue: whether it is held, how many messages wait before it, when it is
-- due.
--
-- `queue_position` is the number of waiting messages with a smaller number; 0 for a held one; `p_counted` limits the
-- count (see `waiting_before`). All null when its message is gone. `visible_in` is the rest of a backoff or a delayed
-- start, null when it may be claimed now. A request whose lease has run out has the position of its number.
create or replace function tidegate_internal.message_place(
  p_queue text, p_msg_id bigint, p_id uuid, p_lease bigint, p_counted integer,
  out held boolean, out queue_position bigint, out visible_in interval
)
  language plpgsql stable as $$
declare
  v_now     timestamptz := tidegate.clock();
  v_present boolean;
  v_due_at  timestamptz;
begin
  if p_lease is not null then
    select true, coalesce(bool_or(tidegate.is_held(c.until, c.lease_ms, v_now)), false) into v_present, held
    from tidegate.claim as c
    where c.token = p_lease and p_id = any(c.ids)
    having count(*) > 0;
  end if;
  if held then
    queue_position := 0;
    return;
  end if;
  case p_queue
    -- each queue
    when 'QUEUE' then
      -- Its table may have been dropped.
      if to_regclass('pgmq.q_QUEUE') is null then
        held := null;
        return;
      end if;
      if v_present is null then
        select true, case when m.vt > v_now then m.vt end into v_present, v_due_at
        from pgmq.q_QUEUE as m
        where m.msg_id = p_msg_id;
      end if;
    -- end of each queue
    -- A queue may be gone, with the request left live in it, until `recover` puts it elsewhere.
    else null;
  end case;
  if v_present is null then
    return;
  end if;

  held := false;
  visible_in := v_due_at - v_now;
  queue_position := tidegate_internal.waiting_before(p_queue, p_msg_id, p_counted, v_now);
end;
$$;
select tidegate_internal.plan_along_indexes('message_place');
