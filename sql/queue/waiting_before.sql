-- waiting_before: how many messages of a queue wait before one of them, or, without a number, in all
--
-- Counts one by one what is near the head, where claims change it, and what is newer than the last survey; takes what
-- lies between from `queue_survey` (see `survey_queue`). So the answer costs about the same at any depth, and is exact
-- once the queue has been quiet for one round of the survey. Until then a cancel deep in the queue, or a delayed start
-- there that has come due, is missing from it.
--
-- Of what the survey does not know, `p_counted` messages are counted, the others by the difference of their numbers: an
-- upper bound. Without `p_counted` everything is counted, one by one where no survey has been made lately.
create or replace function tidegate_internal.waiting_before(
  p_queue   text,
  p_msg_id  bigint,
  p_counted integer,
  p_now     timestamptz default tidegate.clock()
)
  returns bigint
  language plpgsql
  stable
  -- Every look is a short walk along an index, in its order. A queue that has grown since anybody analyzed it looks small
  -- to the planner, which would rather read and sort all of it.
  set enable_bitmapscan = off
  set enable_sort = off
  set jit = off
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_lag      constant integer := 32;    -- blocks; by more the low-water mark does not lag behind the head
  v_many     constant integer := 2000;  -- messages with a time that has come, counted one by one
  v_mark     bigint := coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'mark')), 0);
  v_due_us   bigint := coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'due')), 0);
  v_survey   bigint := pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'survey'));
  v_end      bigint := coalesce(p_msg_id, pg_sequence_last_value(tidegate_internal.queue_sequence(p_queue)) + 1, 0);
  v_head     record;
  v_next     bigint;
  v_from     bigint;
  v_to       bigint;
  v_surveyed bigint := 0;
  v_limit    bigint;
  v_tail     record;
begin
  if p_counted is null
    and to_timestamp(v_survey / 1000000.0) between p_now - interval '30 seconds' and p_now + interval '1 second' is not true
  then
    execute format(
      'select count(*) as waiting from %s as m where m.msg_id < $1 and m.vt <= $2', tidegate_internal.queue_table(p_queue)
    )
      into v_tail using v_end, p_now;
    return v_tail.waiting;
  end if;

  -- What came due below the mark, the first one that waits from there on, and those in its block and the next.
  execute format(
    $sql$
      with due as materialized (
        select msg_id from %1$s where vt > $1 and vt <= $2 order by vt limit $5
      ), first as materialized (
        select m.msg_id
        from %1$s as m
        where m.msg_id >= $3 and m.msg_id < least($4, ($3 / 256 + $6) * 256) and coalesce(m.vt <= $2, false)
        order by m.msg_id
        limit 1
      )
      select
        (select count(*) from due) as due,
        (select count(*) from due where due.msg_id < least($3, $4)) as below,
        (select least($4, (first.msg_id / 256 + 2) * 256) from first) as next,
        (
          select count(*) filter (where near.vt <= $2)
          from first
          -- The limit bounds the look, and the time is none of its conditions: a planner that expects many rows, or has not
          -- seen that the queue has grown, would read them all, by the index on the time.
          cross join lateral (
            select m.vt
            from %1$s as m
            where m.msg_id >= first.msg_id and m.msg_id < least($4, (first.msg_id / 256 + 2) * 256)
            order by m.msg_id
            limit 512
          ) as near
        ) as near
    $sql$,
    tidegate_internal.queue_table(p_queue)
  ) into v_head using to_timestamp(v_due_us / 1000000.0), p_now, v_mark, v_end, v_many, v_lag;
  v_next := coalesce(v_head.next, (v_mark / 256 + v_lag) * 256);
  -- So much came due that the survey has to tell it, from below the mark on.
  if v_head.due = v_many then
    v_head.below := 0;
    v_head.near := 0;
    v_next := 0;
  end if;
  if v_next >= v_end then
    return v_head.below + v_head.near;
  end if;

  -- What has been surveyed from there on: whole blocks of 256 numbers, 64 of which are a stretch.
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
          from unnest(s.waiting_by_block[greatest(v_from - s.stretch * 64, 0) + 1 : least(v_to - s.stretch * 64, 64)]) as b
        )
      end
    ), 0) into v_surveyed
    from tidegate.queue_survey as s
    where s.queue = p_queue and s.stretch between v_from / 64 and (v_to - 1) / 64;
  end if;

  -- What is newer. The limit bounds the look, not the number: a planner that expects few rows would read them all first.
  v_limit := least(p_counted, v_end - v_to * 256);
  execute format(
    $sql$
      select count(*) as seen, count(*) filter (where w.msg_id < $3) as waiting, max(w.msg_id) as last
      from (
        select m.msg_id
        from %s as m
        where m.msg_id >= $1 and m.msg_id < $3 and coalesce(m.vt <= $2, false)
        order by m.msg_id
        limit $4
      ) as w
    $sql$,
    tidegate_internal.queue_table(p_queue)
  ) into v_tail using v_to * 256, p_now, v_end, v_limit;
  if v_tail.seen = p_counted and v_tail.last < v_end then
    v_tail.waiting := v_tail.waiting + v_end - v_tail.last - 1;
  end if;
  -- No more than there are numbers, whatever has changed since the survey.
  return v_head.below + v_head.near + least(v_surveyed + v_tail.waiting, v_end - v_next);
end;
$$;

comment on function tidegate_internal.waiting_before is
  'How many messages of a queue wait before one of them, or in all; deep ones by the last survey.';
