-- tidegate.remove_strays: deletes messages of a queue that stand for no live request of its stage
--
-- One bounded batch a call: looks at messages numbered above `after`, and returns how many it removed and where to go
-- on (`next_after`, null at the end). A message counts only if its request's row names it. `dry_run` counts only; `run` is
-- whose record counts them.
-- An earlier version has other parameters.
drop function if exists tidegate.remove_strays(text, integer, bigint, boolean);

create or replace function tidegate.remove_strays(
  queue          text,
  batch          integer default 1000,
  after          bigint default null,
  dry_run        boolean default false,
  run            bigint default null,
  out removed    bigint,
  out next_after bigint
)
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_queue   tidegate.queue := tidegate.require_queue(remove_strays.queue);
  v_msg_ids bigint[];
  v_ids     uuid[];
  v_strays  bigint[];
begin
  if to_regclass(tidegate.queue_table(remove_strays.queue)) is null then
    removed := 0;
    return;
  end if;
  execute format(
    $sql$
      select array_agg(m.msg_id order by m.msg_id), array_agg(tidegate.message_request_id(m.message) order by m.msg_id)
      from (select * from %s where msg_id > $1 order by msg_id limit $2) as m
    $sql$,
    tidegate.queue_table(remove_strays.queue)
  ) into v_msg_ids, v_ids using coalesce(remove_strays.after, 0), batch;
  if cardinality(v_msg_ids) = batch then
    next_after := v_msg_ids[batch];
  end if;

  v_strays := tidegate.stray_messages(v_queue, v_msg_ids, v_ids);
  if v_strays <> '{}' then
    if not dry_run then
      perform tidegate.lock_messages(array_fill(remove_strays.queue, array[cardinality(v_strays)]), v_strays);
    end if;
    -- Looked at again, messages and rows at once: by now whatever moved such a request has committed, or has not begun.
    v_strays := array(
      select s.msg_id
      from unnest(tidegate.stray_messages(v_queue, v_msg_ids, v_ids)) as s(msg_id)
      join tidegate.messages_of(array_fill(remove_strays.queue, array[cardinality(v_strays)]), v_strays, clock_timestamp()) as m
        on m.msg_id = s.msg_id
    );
    if not dry_run then
      perform tidegate.delete_messages(remove_strays.queue, v_strays, false);
    end if;
  end if;
  removed := cardinality(v_strays);
  if not dry_run then
    perform tidegate.note_recovery(run, jsonb_build_object('strays_removed', removed));
  end if;
end;
$$;
