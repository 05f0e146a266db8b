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
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones, too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
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
  case lock_held.queue
    -- each queue
    when 'QUEUE' then
      with held as materialized (
        select m.msg_id, tidegate.message_request_id(m.message) as id, l.place, m.last_read_at
        from unnest(p_leases) with ordinality as l(queue, msg_id, nonce, place)
        join pgmq.q_QUEUE as m on m.msg_id = l.msg_id and m.headers ->> 'nonce' = l.nonce::text
        order by m.msg_id
        for update of m
      )
      select array_agg(h.msg_id), array_agg(h.id), array_agg(h.place), array_agg(h.last_read_at)
      into msg_ids, ids, places, claimed
      from (select * from held order by held.msg_id) as h;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(lock_held.queue);
  end case;
end;
$$;

comment on function tidegate_internal.lock_held is 'Locks the messages that the given leases still hold.';
