-- delete_messages: Removes messages from a queue.
create or replace function tidegate_internal.delete_messages(p_queue text, p_msg_ids bigint[])
  returns void language plpgsql as $$
begin
  if coalesce(cardinality(p_msg_ids), 0) = 0 then
    return;
  end if;
  case p_queue
    -- each fifo queue
    when 'QUEUE' then
      delete from pgmq.q_QUEUE as m where m.msg_id = any(p_msg_ids);
    -- end of each queue
    else perform tidegate_internal.delete_from_turns(p_queue, p_msg_ids);
  end case;
  perform tidegate_internal.gate_evaluate(p_queue, 'too_many_requests');
end;
$$;
select tidegate_internal.plan_along_indexes('delete_messages');
