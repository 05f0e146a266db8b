-- waiting_near: The waiting messages of a queue where claims change them, one by one: those that came due below the
-- watermark, and those at the head.
--
-- `p_mark` and `p_due_from` are the queue's watermarks, `p_last` the number after the last one of interest. `due` are
-- the numbers below the mark; `near` those from the first that waits to the end of the next block of 256 numbers, where
-- `next` begins. So many came due that the survey tells more: both are empty, and `next` is 0. Planned with the
-- settings of its caller.
create or replace function tidegate_internal.waiting_near(
  p_queue text, p_mark bigint, p_due_from timestamptz, p_last bigint, p_now timestamptz,
  out due bigint[], out near bigint[], out next bigint
)
  language plpgsql stable as $$
declare
  v_lag   constant integer := 32;    -- blocks; by more the watermark does not lag behind the head
  v_many  constant integer := 2000;  -- messages with a time that has come, counted one by one
  v_first bigint;
begin
  case p_queue
    -- each fifo queue
    when 'QUEUE' then
      due := array(
        select d.msg_id
        from (
          select m.msg_id
          from pgmq.q_QUEUE as m
          where m.vt > '-infinity' and m.vt > p_due_from and m.vt <= p_now
          order by m.vt
          limit v_many
        ) as d
        order by d.msg_id
      );
      -- The time is no condition for an index here (`coalesce`): else the index on the time would serve the read.
      v_first := (
        select m.msg_id
        from pgmq.q_QUEUE as m
        where m.msg_id >= p_mark and m.msg_id < least(p_last, (p_mark / 256 + v_lag) * 256)
          and coalesce(m.vt <= p_now, false)
        order by m.msg_id
        limit 1
      );
      near := array(
        select m.msg_id
        from pgmq.q_QUEUE as m
        where m.msg_id >= v_first and m.msg_id < least(p_last, (v_first / 256 + 2) * 256)
          and coalesce(m.vt <= p_now, false)
        order by m.msg_id
      );
    -- end of each queue
    -- The queue has been removed since its caller began.
    else due := '{}'; near := '{}';
  end case;
  next := coalesce(v_first / 256 + 2, p_mark / 256 + v_lag) * 256;
  if cardinality(due) = v_many then
    due := '{}';
    near := '{}';
    next := 0;
  end if;
end;
$$;
