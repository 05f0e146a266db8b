-- lock_held: locks the messages that the given leases still hold, in msg_id order
--
-- Returns, in the same order, the messages' numbers, their request ids, the place of each lease in the array given (from
-- 1), and when each was claimed; nulls when none is held any more. A message that another claim is taking at this moment
-- is waited for, and then its nonce is looked at again. Raises TG007 when the leases name more than one queue.
create or replace function tidegate_internal.lock_held(
  p_leases    tidegate.lease[],
  out queue   text,
  out msg_ids bigint[],
  out ids     uuid[],
  out places  bigint[],
  out claimed timestamptz[]
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_queues integer;
begin
  select min(l.queue), count(distinct l.queue) into lock_held.queue, v_queues from unnest(p_leases) as l;
  if v_queues = 0 then
    return;
  end if;
  if v_queues > 1 then
    raise exception using
      errcode = 'TG007',
      message = 'the leases of one call must all name the same queue',
      hint = 'settle the leases of each queue in a call of its own';
  end if;
  perform tidegate_internal.require_queue(lock_held.queue);

  execute format(
    $sql$
      with held as materialized (
        select m.msg_id, tidegate.message_request_id(m.message) as id, l.place, m.last_read_at
        from unnest($1) with ordinality as l(queue, msg_id, nonce, place)
        join %s as m on m.msg_id = l.msg_id and m.headers ->> 'nonce' = l.nonce::text
        where m.msg_id = any($2)
        order by m.msg_id
        for update of m
      )
      select
        array_agg(held.msg_id order by held.msg_id),
        array_agg(held.id order by held.msg_id),
        array_agg(held.place order by held.msg_id),
        array_agg(held.last_read_at order by held.msg_id)
      from held
    $sql$,
    tidegate_internal.queue_table(lock_held.queue)
  )
  into msg_ids, ids, places, claimed
  using p_leases, array(select l.msg_id from unnest(p_leases) as l);
end;
$$;

comment on function tidegate_internal.lock_held is 'Locks the messages that the given leases still hold.';
