-- free_messages: gives messages back: they are held no more, and each is visible from its time on
--
-- A message that may be taken at once can lie below the queue's low-water mark, which is then lowered. Giving one back
-- holds the mark's lock until this transaction ends, wherever the mark stands, because whoever raises the mark takes
-- the same lock and looks again (`raise_mark`): else a raise that did not see this message yet would leave it behind.
-- Messages with a finite time need none of this, they are found through the index on the visibility time.
create or replace function tidegate_internal.free_messages(p_queue text, p_msg_ids bigint[], p_visible timestamptz[])
  returns void
  language plpgsql
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones, too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_first bigint;
begin
  case p_queue
    -- each queue
    when 'QUEUE' then
      update pgmq.q_QUEUE as m
      set vt = freed.visible, headers = null
      from unnest(p_msg_ids, p_visible) as freed(msg_id, visible)
      where m.msg_id = freed.msg_id;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;

  select min(freed.msg_id) into v_first
  from unnest(p_msg_ids, p_visible) as freed(msg_id, visible)
  where freed.visible = '-infinity';

  if v_first is not null then
    perform pg_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'mark'));
    perform tidegate_internal.lower_mark(p_queue, v_first);
  end if;
end;
$$;

comment on function tidegate_internal.free_messages is 'Gives messages back, visible from the times given.';
