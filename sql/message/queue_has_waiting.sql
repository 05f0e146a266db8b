-- queue_has_waiting: Whether a message at or after the queue's watermark may be taken now.
create or replace function tidegate_internal.queue_has_waiting(p_queue text, p_now timestamptz default tidegate.clock())
  returns boolean language plpgsql stable as $$
declare
  v_mark    bigint;
  v_waiting boolean;
begin
  case p_queue
    -- each fifo queue
    when 'QUEUE' then
      v_mark := coalesce(pg_sequence_last_value('tidegate.watermark_QUEUE'), 0);
      v_waiting := exists (
        select from (
          select from pgmq.q_QUEUE as m where m.msg_id >= v_mark and m.vt <= p_now order by m.msg_id limit 1
        ) as first
      );
    -- end of each queue
    else return tidegate_internal.turns_wait(p_queue, p_now);
  end case;
  return v_waiting;
end;
$$;
select tidegate_internal.plan_along_indexes('queue_has_waiting', 'sort');
