-- free_messages: gives messages back: they are held no more, and each is visible from its time on
--
-- A message that may be taken at once can lie below the queue's low-water mark, which is then lowered. Giving one back
-- holds the mark's lock until this transaction ends, wherever the mark stands, because whoever raises the mark takes
-- the same lock and looks again (`raise_mark`): else a raise that did not see this message yet would leave it behind.
-- Messages with a finite time need none of this, they are found through the index on the visibility time.
create or replace function tidegate_internal.free_messages(p_queue text, p_msg_ids bigint[], p_visible timestamptz[])
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_mark  regclass := tidegate_internal.queue_counter(p_queue, 'mark');
  v_first bigint;
begin
  execute format(
    $sql$
      update %s as m
      set vt = freed.visible, headers = null
      from unnest($1, $2) as freed(msg_id, visible)
      where m.msg_id = freed.msg_id
    $sql$,
    tidegate_internal.queue_table(p_queue)
  ) using p_msg_ids, p_visible;

  select min(freed.msg_id) into v_first
  from unnest(p_msg_ids, p_visible) as freed(msg_id, visible)
  where freed.visible = '-infinity';

  if v_first is not null then
    perform pg_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'mark'));
    if v_first < pg_sequence_last_value(v_mark) then
      perform setval(v_mark, greatest(v_first, 1));
    end if;
  end if;
end;
$$;

comment on function tidegate_internal.free_messages is 'Gives messages back, visible from the times given.';
