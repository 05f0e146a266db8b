-- lock_messages: Locks messages by number, held or not, queue by queue in name order.
--
-- For what acts on requests and not for a lease holder: cancel, deadlines, operators, recovery. A message that is
-- gone is passed over, and so is a queue that does not exist (a row edited by hand); the caller's guard on the row
-- decides.
create or replace function tidegate_internal.lock_messages(p_queues text[], p_msg_ids bigint[])
  returns void
  language plpgsql
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones,
  -- too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue   text;
  v_msg_ids bigint[];
begin
  for v_queue, v_msg_ids in
    select m.queue, array_agg(m.msg_id order by m.msg_id)
    from unnest(p_queues, p_msg_ids) as m(queue, msg_id)
    join tidegate.queue as known on known.name = m.queue
    group by m.queue
    order by m.queue
  loop
    case v_queue
      -- each queue
      when 'QUEUE' then
        perform
        from (select from pgmq.q_QUEUE as m where m.msg_id = any(v_msg_ids) order by m.msg_id for update) as locked;
      -- end of each queue
      else perform tidegate_internal.refuse_queue(v_queue);
    end case;
  end loop;
end;
$$;
