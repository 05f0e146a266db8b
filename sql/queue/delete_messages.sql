-- delete_messages: Removes messages from a queue.
create or replace function tidegate_internal.delete_messages(p_queue text, p_msg_ids bigint[])
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
begin
  if coalesce(cardinality(p_msg_ids), 0) = 0 then
    return;
  end if;
  case p_queue
    -- each queue
    when 'QUEUE' then
      delete from pgmq.q_QUEUE as m where m.msg_id = any(p_msg_ids);
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
  perform tidegate_internal.gate_evaluate(p_queue, 'too_many_requests');
end;
$$;
