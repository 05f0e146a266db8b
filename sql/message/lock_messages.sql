-- lock_messages: Locks messages by number, queue by queue in the order of the queues' names.
--
-- For cancel, deadlines, operators and recovery, which act on requests and hold no lease. A message that is gone is
-- skipped, and so is a queue that does not exist (a row edited by hand); the caller's guard on the row decides.
create or replace function tidegate_internal.lock_messages(p_queues text[], p_msg_ids bigint[])
  returns void language plpgsql as $$
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
select tidegate_internal.plan_along_indexes('lock_messages');
