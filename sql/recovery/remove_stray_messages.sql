-- remove_stray_messages: One batch: deletes messages of a queue that stand for no live request; continues at
-- next_after.
--
-- One bounded batch a call: examines messages numbered above `after` until `batch` are strays or fifty times as many
-- have been examined, and returns how many it removed and where to continue (`next_after`, null at the end). A message
-- counts only if its request's row names it, and no lease. `dry_run` counts only; `run` is the record that counts them.
create or replace function tidegate.remove_stray_messages(
  queue text, batch integer default 1000, after bigint default null, dry_run boolean default false,
  run bigint default null,
  out removed bigint, out next_after bigint
)
  language plpgsql security definer
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_queue  tidegate.queue := tidegate_internal.require_queue(remove_stray_messages.queue);
  v_until  bigint;
  v_window integer := greatest(batch, least(50 * batch, 50000));
  v_strays bigint[];
  v_queues text[];
  v_states constant tidegate.request_status[] := case v_queue.stage
    when 'readiness' then '{queued}' else '{processing,tx_in_flight}' end;
begin
  if to_regclass(tidegate_internal.queue_table(remove_stray_messages.queue)) is null then
    removed := 0;
    return;
  end if;
  -- First how far this batch goes: messages settled meanwhile must not make it skip others.
  execute format(
    'select m.msg_id from %s as m where m.msg_id > coalesce($1, 0) order by m.msg_id offset $2 - 1 limit 1',
    tidegate_internal.queue_table(remove_stray_messages.queue)
  ) into v_until using remove_stray_messages.after, v_window;
  -- The inner query is not flattened (`offset 0`), so that the limit ends it row by row.
  execute format(
    $sql$
      select coalesce(array_agg(s.msg_id order by s.msg_id), '{}')
      from (
        select m.msg_id
        from (
          select m.msg_id, tidegate.message_request_id(m.message) as id
          from %s as m
          where m.msg_id > coalesce($1, 0) and m.msg_id <= coalesce($5, 9223372036854775807)
          order by m.msg_id
          offset 0
        ) as m
        where (
          select r.lease is null and r.req_status = any($4)
          from tidegate.request as r
          where r.id = m.id and r.queue = $3 and r.msg_id = m.msg_id
        ) is not true
        order by m.msg_id
        limit $2
      ) as s
    $sql$,
    tidegate_internal.queue_table(remove_stray_messages.queue)
  ) into v_strays using remove_stray_messages.after, batch, v_queue.name, v_states, v_until;
  next_after := case when cardinality(v_strays) = batch then v_strays[batch] else v_until end;
  if v_strays <> '{}' and not dry_run then
    -- Read again under the locks: by now each move of such a request has committed, or has not begun.
    v_queues := array_fill(v_queue.name, array[cardinality(v_strays)]);
    perform tidegate_internal.lock_messages(v_queues, v_strays);
    v_strays := array(
      select m.msg_id
      from tidegate_internal.messages_of(v_queues, v_strays) as m
      where not exists (
        select
        from tidegate.request as r
        where r.id = m.request_id and r.queue = m.queue and r.msg_id = m.msg_id and r.lease is null
          and r.req_status = any(v_states)
      )
      order by m.msg_id
    );
    perform tidegate_internal.delete_messages(remove_stray_messages.queue, v_strays);
  end if;
  removed := cardinality(v_strays);
  if not dry_run then
    perform tidegate_internal.record_recovery(run, jsonb_build_object('strays_removed', removed));
  end if;
end;
$$;
select tidegate_internal.allow('remove_stray_messages', '{admin}');
