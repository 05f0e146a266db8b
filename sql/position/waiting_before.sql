-- waiting_before: How many messages of a queue wait before each of some numbers, or in all; deep ones by the last
-- survey. No row for a queue without a table.
--
-- `p_msg_ids` is in ascending order, each once; null stands for the end of the queue, and its row has the next number.
-- `vt` is the time of the message with that number, null if there is none; `expected` is that of `turns_before`, null
-- in a fifo queue. Many numbers share the reads of the head and the survey, and those of one block its messages.
--
-- Counts one by one near the head, where claims change it, and numbers newer than the last survey; takes the rest from
-- `queue_survey` (see `survey_queue`). So the count costs about the same at any depth, and is exact once the queue has
-- been quiet for one round of the survey. Until then a cancel deep in the queue, or a delayed start there that has come
-- due, is missing from it.
--
-- Of the messages newer than the survey, `p_counted` are counted, the others by the difference of their numbers: an
-- upper bound. Without `p_counted` everything is counted, one by one where no survey has been made lately.
create or replace function tidegate_internal.waiting_before(
  p_queue text, p_msg_ids bigint[], p_counted integer, p_now timestamptz default tidegate.clock()
)
  returns table (msg_id bigint, waiting bigint, vt timestamptz, expected bigint) language plpgsql stable as $$
#variable_conflict use_column
declare
  v_mark     bigint;
  v_due_from timestamptz;
  v_at       bigint;
  v_ends     bigint[];
  v_last     bigint;
  v_head     record;
  v_from     bigint;
  v_survey   record;
  v_chunks   bigint[];
  v_known    bigint[];
  v_before   bigint[];
begin
  case p_queue
    -- each fifo queue
    when 'QUEUE' then
      -- Its table may have been dropped.
      if to_regclass('pgmq.q_QUEUE') is null then
        return;
      end if;
      v_mark := coalesce(pg_sequence_last_value('tidegate.watermark_QUEUE'), 0);
      v_due_from := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_watermark_QUEUE'), 0) / 1000000.0);
      v_at := pg_sequence_last_value('tidegate.surveyed_at_QUEUE');
      v_ends := array_replace(p_msg_ids, null, (
        select s.last_value + s.is_called::integer from pgmq.q_QUEUE_msg_id_seq as s
      ));
      v_last := v_ends[cardinality(v_ends)];
      if p_counted is null
        and (to_timestamp(v_at / 1000000.0) between p_now - interval '30 seconds' and p_now + interval '1 second')
          is not true
      then
        return query
          select e.msg_id, (select count(*) from pgmq.q_QUEUE as m where m.msg_id < e.msg_id and m.vt <= p_now),
            (select m.vt from pgmq.q_QUEUE as m where m.msg_id = e.msg_id), null::bigint
          from unnest(v_ends) as e(msg_id);
        return;
      end if;
    -- end of each queue
    else
      return query
        select b.msg_id, b.waiting, b.vt, b.expected
        from tidegate_internal.turns_before(
          p_queue, p_msg_ids, array_fill(null::bigint, array[cardinality(p_msg_ids)]), p_counted, p_now
        ) as b;
      return;
  end case;
  v_head := tidegate_internal.waiting_near(p_queue, v_mark, v_due_from, v_last, p_now);
  v_from := v_head.next / 256;
  if v_last > v_head.next then
    v_survey := tidegate_internal.read_survey(p_queue, v_from, v_last / 256);
    v_chunks := v_survey.chunks;
    v_known := v_survey.known;
    v_before := v_survey.before;
  end if;

  -- Newer messages: those of the blocks that no survey knows, and of each message's own.
  case p_queue
    -- each fifo queue
    when 'QUEUE' then
      return query
        select
          e.msg_id,
          width_bucket(least(v_mark, e.msg_id) - 1, v_head.due) + width_bucket(e.msg_id - 1, v_head.near)
            -- No more than there are numbers, whatever has changed since the survey.
            + greatest(0, least(e.msg_id - v_head.next, g.surveyed + t.seen
              + case when t.seen = p_counted then e.msg_id - 1 - g.newer[t.seen] else 0 end)),
          (select m.vt from pgmq.q_QUEUE as m where m.msg_id = e.msg_id), null::bigint
        from (
          select
            b.msg_ids,
            coalesce(v_before[b.nth] + (
              select coalesce(sum(w), 0)
              from tidegate.queue_survey as s
              cross join unnest(s.waiting_by_block[1 : b.block - s.chunk * 64]) as w
              where s.queue = p_queue and s.chunk = v_chunks[b.nth]
            ), 0) as surveyed,
            array(
              select m.msg_id
              from pgmq.q_QUEUE as m
              where m.msg_id >= b.block * 256 and m.msg_id < b.last and coalesce(m.vt <= p_now, false)
              order by m.msg_id
              limit p_counted
            ) as newer
          from (
            select
              x.block, width_bucket(x.block / 64, v_chunks) as nth, array_agg(x.msg_id) as msg_ids,
              max(x.msg_id) as last
            from (
              select
                a.msg_id,
                greatest(v_from, case when k.known is not null then least(k.known, a.msg_id / 256) end) as block
              from unnest(v_ends) as a(msg_id)
              cross join lateral (
                select v_known[width_bucket(a.msg_id / 256 / 64, v_chunks)] as known
              ) as k
            ) as x
            group by x.block
          ) as b
          -- Once for each block, not for each of its messages.
          offset 0
        ) as g
        cross join lateral unnest(g.msg_ids) as e(msg_id)
        cross join lateral (select width_bucket(e.msg_id - 1, g.newer) as seen) as t;
    -- end of each queue
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('waiting_before', 'sort');
