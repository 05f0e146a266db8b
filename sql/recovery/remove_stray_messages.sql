-- remove_stray_messages: Deletes one batch of a queue's stray messages; continues at next_after.
--
-- A message is stray if no waiting or snoozed request needs it: the row of its request is missing, names another queue
-- or number, names a lease, or has a status that this queue does not serve. A claim deletes the strays that it takes;
-- this function finds the others, which count in the queue's depth. It examines messages numbered above `after`: 50 for
-- each of `batch`, but at most 50,000, and at least `batch`; it stops at `batch` strays. `removed` is their number;
-- `next_after` is null at the end of the queue. With `dry_run` it deletes nothing. `run` is the row of `recovery` to
-- which the number is added.
create or replace function tidegate.remove_stray_messages(
  queue text, batch integer default 1000, after bigint default null, dry_run boolean default false,
  run bigint default null,
  out removed bigint, out next_after bigint
)
  language plpgsql security definer
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_queue   tidegate.queue := tidegate_internal.require_queue(remove_stray_messages.queue);
  v_until   bigint;
  v_examine integer := greatest(batch, least(50 * batch, 50000));
  v_strays  bigint[];
  v_queues  text[];
  v_statuses constant tidegate.request_status[] := case v_queue.stage
    when 'readiness' then '{queued}' else '{processing,tx_in_flight}' end;
begin
  if to_regclass(tidegate_internal.queue_table(remove_stray_messages.queue)) is null then
    removed := 0;
    return;
  end if;
  -- The upper bound is read before the search. If it were read after, messages deleted meanwhile would move it past
  -- messages that were not examined.
  execute format(
    'select m.msg_id from %s as m where m.msg_id > coalesce($1, 0) order by m.msg_id offset $2 - 1 limit 1',
    tidegate_internal.queue_table(remove_stray_messages.queue)
  ) into v_until using remove_stray_messages.after, v_examine;
  -- `offset 0` keeps the planner from pulling the subquery up: it reads in the order of msg_id, the filter runs for one
  -- message at a time, and the limit ends the scan.
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
  ) into v_strays using remove_stray_messages.after, batch, v_queue.name, v_statuses, v_until;
  next_after := case when cardinality(v_strays) = batch then v_strays[batch] else v_until end;
  if v_strays <> '{}' and not dry_run then
    -- Checked again under the locks: a transaction that moves such a request locks its message first, so it has
    -- committed or has not begun.
    v_queues := array_fill(v_queue.name, array[cardinality(v_strays)]);
    perform tidegate_internal.lock_messages(v_queues, v_strays);
    v_strays := array(
      select m.msg_id
      from tidegate_internal.messages_of(v_queues, v_strays) as m
      where not exists (
        select
        from tidegate.request as r
        where r.id = m.request_id and r.queue = m.queue and r.msg_id = m.msg_id and r.lease is null
          and r.req_status = any(v_statuses)
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
