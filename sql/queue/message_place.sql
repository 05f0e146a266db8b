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
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now     timestamptz := tidegate.clock();
  v_message record;
begin
  -- A queue may be gone, with the request left live in it, until `recover` puts it elsewhere.
  if p_queue is null or to_regclass(tidegate_internal.queue_table(p_queue)) is null then
    return;
  end if;
  execute format(
    $sql$
      select
        true as present,
        tidegate.is_held(m.headers, m.vt, $2) as held,
        case when m.vt > $2 then m.vt end as due_at
      from %s as m
      where m.msg_id = $1
    $sql$,
    tidegate_internal.queue_table(p_queue)
  ) into v_message using p_msg_id, v_now;
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
