-- queue_count: How many requests a queue holds, under a lease or not, and how many of them wait; exact up to
-- `p_counted`.
--
-- Reads messages from the watermarks on, as a claim does: those served since the last vacuum lie before them.
create or replace function tidegate_internal.queue_count(p_queue text, p_counted integer, out depth bigint,
  out waiting bigint)
  language plpgsql stable as $$
declare
  v_now  constant timestamptz := tidegate.clock();
  v_mark bigint;
  v_due  timestamptz;
begin
  depth := 0;
  waiting := 0;
  case p_queue
    -- each queue
    when 'QUEUE' then
      -- Its table may have been dropped.
      if to_regclass('pgmq.q_QUEUE') is null then
        return;
      end if;
      v_mark := coalesce(pg_sequence_last_value('tidegate.watermark_QUEUE'), 0);
      v_due := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_watermark_QUEUE'), 0) / 1000000.0);
      select count(*) + tidegate_internal.leased_count(p_queue), count(*) filter (where m.vt <= v_now)
      into depth, waiting
      from (
        (select q.vt from pgmq.q_QUEUE as q where q.msg_id >= v_mark order by q.msg_id limit p_counted)
        union all
        (
          select d.vt
          from (
            select q.msg_id, q.vt
            from pgmq.q_QUEUE as q
            where v_mark > 1 and q.vt > '-infinity' and q.vt > v_due
            order by q.vt
            offset 0
          ) as d
          where d.msg_id < v_mark
          limit p_counted
        )
      ) as m;
    -- end of each queue
    -- A queue may be gone, with its kinds still there.
    else null;
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('queue_count', 'sort');
