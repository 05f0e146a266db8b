-- queue_numbers: The last number that a queue has drawn, and how many up to it are known to be dead.
--
-- At most as many messages as lie between them are in the queue. An offset beyond the last number is that of another
-- sequence (this one was set back or made again): it is set to 0 before any draw, also with admission `accepted`, or
-- the last number would grow up to it. Too small an offset is always safe, and the next refresh corrects it.
create or replace function tidegate_internal.queue_numbers(p_queue text, out dead bigint, out last bigint)
  language plpgsql as $$
begin
  case p_queue
    -- each queue
    when 'QUEUE' then
      dead := coalesce(pg_sequence_last_value('tidegate.offset_QUEUE'), 0);
      -- Read as a row: `pg_sequence_last_value` takes the lock that shows open draws (see `refresh_offset`).
      select s.last_value - (not s.is_called)::integer into last from pgmq.q_QUEUE_msg_id_seq as s;
      if dead > last then
        perform setval('tidegate.offset_QUEUE', 0);
        dead := 0;
      end if;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;
