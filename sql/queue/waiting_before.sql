-- waiting_before: How many messages of a queue wait before one of them, or in all; deep ones by the last survey.
--
-- Counts one by one near the head, where claims change it, and numbers newer than the last survey; takes the rest from
-- `queue_survey` (see `survey_queue`). So the count costs about the same at any depth, and is exact once the queue has
-- been quiet for one round of the survey. Until then a cancel deep in the queue, or a delayed start there that has come
-- due, is missing from it.
--
-- Of the messages newer than the survey, `p_counted` are counted, the others by the difference of their numbers: an
-- upper bound. Without `p_counted` everything is counted, one by one where no survey has been made lately.
create or replace function tidegate_internal.waiting_before(
  p_queue text, p_msg_id bigint, p_counted integer, p_now timestamptz default tidegate.clock()
)
  returns bigint language plpgsql stable as $$
declare
  v_lag      constant integer := 32;    -- blocks; by more the watermark does not lag behind the head
  v_many     constant integer := 2000;  -- messages with a time that has come, counted one by one
  v_mark     bigint;
  v_due      timestamptz;
  v_survey   bigint;
  v_end      bigint;
  v_head     record;
  v_next     bigint;
  v_from     bigint;
  v_to       bigint;
  v_surveyed bigint := 0;
  v_limit    bigint;
  v_tail     record;
begin
  case p_queue
    -- each queue
    when 'QUEUE' then
      v_mark := coalesce(pg_sequence_last_value('tidegate.watermark_QUEUE'), 0);
      v_due := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_QUEUE'), 0) / 1000000.0);
      v_survey := pg_sequence_last_value('tidegate.survey_QUEUE');
      v_end := coalesce(p_msg_id, (select s.last_value + s.is_called::integer from pgmq.q_QUEUE_msg_id_seq as s));
      if p_counted is null
        and (to_timestamp(v_survey / 1000000.0) between p_now - interval '30 seconds' and p_now + interval '1 second')
          is not true
      then
        return (select count(*) from pgmq.q_QUEUE as m where m.msg_id < v_end and m.vt <= p_now);
      end if;

      -- Messages due below the watermark, the first one that waits from there on, and those in its block and the next.
      with due as materialized (
        select m.msg_id
        from pgmq.q_QUEUE as m
        where m.vt > '-infinity' and m.vt > v_due and m.vt <= p_now
        order by m.vt
        limit v_many
      ), first as materialized (
        select m.msg_id
        from pgmq.q_QUEUE as m
        where m.msg_id >= v_mark and m.msg_id < least(v_end, (v_mark / 256 + v_lag) * 256)
          and coalesce(m.vt <= p_now, false)
        order by m.msg_id
        limit 1
      )
      select
        (select count(*) from due) as due,
        (select count(*) from due where due.msg_id < least(v_mark, v_end)) as below,
        (select least(v_end, (first.msg_id / 256 + 2) * 256) from first) as next,
        (
          select count(*) filter (where near.vt <= p_now)
          from first
          -- The limit bounds the read, and the time is none of its conditions: else the index on the time would serve
          -- it.
          cross join lateral (
            select m.vt
            from pgmq.q_QUEUE as m
            where m.msg_id >= first.msg_id and m.msg_id < least(v_end, (first.msg_id / 256 + 2) * 256)
            order by m.msg_id
            limit 512
          ) as near
        ) as near
      into v_head;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
  v_next := coalesce(v_head.next, (v_mark / 256 + v_lag) * 256);
  -- So many came due that the survey is used from below the watermark on.
  if v_head.due = v_many then
    v_head.below := 0;
    v_head.near := 0;
    v_next := 0;
  end if;
  if v_next >= v_end then
    return v_head.below + v_head.near;
  end if;

  -- The surveyed part from there on: whole blocks of 256 numbers, 64 of which are a stretch.
  v_from := v_next / 256;
  select s.stretch * 64 + cardinality(s.waiting_by_block) into v_to
  from tidegate.queue_survey as s
  where s.queue = p_queue and s.stretch between v_from / 64 and v_end / 256 / 64
  order by s.stretch desc
  limit 1;
  v_to := greatest(v_from, case when v_to is not null then least(v_to, v_end / 256) end);
  if v_to > v_from then
    select coalesce(sum(
      case
        when s.stretch * 64 >= v_from and s.stretch * 64 + 64 <= v_to then s.waiting
        else (
          select sum(b)
          from unnest(s.waiting_by_block[greatest(v_from - s.stretch * 64, 0) + 1 : least(v_to - s.stretch * 64,
            64)]) as b
        )
      end
    ), 0) into v_surveyed
    from tidegate.queue_survey as s
    where s.queue = p_queue and s.stretch between v_from / 64 and (v_to - 1) / 64;
  end if;

  -- Newer messages. The limit bounds the read, not the number: a planner that expects few rows would read them all
  -- first.
  v_limit := least(p_counted, v_end - v_to * 256);
  case p_queue
    -- each queue
    when 'QUEUE' then
      select count(*) as seen, count(*) as waiting, max(w.msg_id) as last into v_tail
      from (
        select m.msg_id
        from pgmq.q_QUEUE as m
        where m.msg_id >= v_to * 256 and m.msg_id < v_end and coalesce(m.vt <= p_now, false)
        order by m.msg_id
        limit v_limit
      ) as w;
    -- end of each queue
  end case;
  if v_tail.seen = p_counted and v_tail.last < v_end then
    v_tail.waiting := v_tail.waiting + v_end - v_tail.last - 1;
  end if;
  -- No more than there are numbers, whatever has changed since the survey.
  return v_head.below + v_head.near + least(v_surveyed + v_tail.waiting, v_end - v_next);
end;
$$;
select tidegate_internal.plan_along_indexes('waiting_before', 'sort');
