-- message_place: where a message stands: held by a worker or not, how many wait before it, when it is due
--
-- `queue_position` is the number of waiting messages with a smaller number; 0 for a held one; `p_counted` says how
-- exactly (see `waiting_before`). All null when the message is gone. `visible_in` is what is left of a backoff or a
-- delayed start, null when it may be taken now.
create or replace function tidegate_internal.message_place(
  p_queue            text,
  p_msg_id           bigint,
  p_counted          integer,
  out held           boolean,
  out queue_position bigint,
  out visible_in     interval
)
  language plpgsql
  stable
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones, too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now     timestamptz := tidegate.clock();
  v_message record;
begin
  case p_queue
    -- each queue
    when 'QUEUE' then
      -- Its table may have been dropped.
      if to_regclass('pgmq.q_QUEUE') is null then
        return;
      end if;
      select true as present, tidegate.is_held(m.headers, m.vt, v_now) as held, case when m.vt > v_now then m.vt end as due_at
      into v_message
      from pgmq.q_QUEUE as m
      where m.msg_id = p_msg_id;
    -- end of each queue
    -- A queue may be gone, with the request left live in it, until `recover` puts it elsewhere.
    else return;
  end case;
  if v_message.present is null then
    return;
  end if;

  held := v_message.held;
  if held then
    queue_position := 0;
    return;
  end if;
  visible_in := v_message.due_at - v_now;
  queue_position := tidegate_internal.waiting_before(p_queue, p_msg_id, p_counted, v_now);
end;
$$;

comment on function tidegate_internal.message_place is
  'Where a message stands: held or not, how many wait before it, when it is due.';
