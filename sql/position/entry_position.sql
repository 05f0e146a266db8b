-- entry_position: How many messages of a queue wait before the next one that enters it; `p_last` is the last number
-- drawn.
--
-- A few hundred are counted. More are estimated from the last survey, some seconds old, and by the numbers drawn since
-- then, but no more than there are from the head on. `submit` makes that estimate itself. The callers set the other
-- planner settings: once, because a setting costs as much as a small query.
create or replace function tidegate_internal.entry_position(p_queue text, p_last bigint, p_now timestamptz)
  returns bigint language plpgsql
  -- A plan that is kept may have been made for empty tables: along the index it serves full ones, too.
  set enable_sort = off
as $$
declare
  v_mark    bigint;
  v_head    bigint;
  v_due     timestamptz;
  v_waiting bigint;
begin
  case p_queue
    -- each fifo queue
    when 'QUEUE' then
      v_mark := coalesce(pg_sequence_last_value('tidegate.watermark_QUEUE'), 0);
      v_head := greatest(v_mark, pg_sequence_last_value('tidegate.first_waiting_QUEUE'));
      -- Among 256 numbers the messages are counted one by one, in an order that leaves the plan one index; among more
      -- than 8192 none is.
      if p_last - v_head < 256 then
        v_due := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_watermark_QUEUE'), 0) / 1000000.0);
        select
          cardinality(array(
            select q.msg_id
            from pgmq.q_QUEUE as q
            where q.msg_id >= v_mark and coalesce(q.vt <= p_now, false)
            order by q.msg_id
            limit 1024
          )) + (
            select count(*)
            from (
              select d.msg_id
              from pgmq.q_QUEUE as d
              where d.vt > '-infinity' and d.vt > v_due and d.vt <= p_now
              order by d.vt
              limit 256
            ) as due
            where due.msg_id < v_mark
          )
        into v_waiting;
      elsif p_last - v_head >= 8192 or pg_sequence_last_value('tidegate.not_waiting_QUEUE') > 0 then
        v_waiting := greatest(0, p_last + 1 - greatest(v_head, pg_sequence_last_value('tidegate.not_waiting_QUEUE')));
      else
        -- Not surveyed yet. A few messages show whether most of these numbers are void.
        select
          case when count(*) < 64 then count(*) filter (where m.vt <= p_now) else p_last + 1 - v_head end
        into v_waiting
        from (select q.vt from pgmq.q_QUEUE as q where q.msg_id >= v_head order by q.msg_id limit 64) as m;
      end if;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
  return v_waiting;
end;
$$;
