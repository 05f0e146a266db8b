-- tidegate.queue_depth_bound: an upper bound of how many messages a queue holds, by their numbers; cheap at any depth
--
-- From the first message to the last number drawn, and what is held or put off below the low-water mark. `waiting`: how
-- many of them may be taken now, if there are few enough to count; else null.
create or replace function tidegate.queue_depth_bound(p_queue text, out bound bigint, out waiting bigint)
  language plpgsql
  stable
as $$
declare
  v_few  constant integer := 256;
  v_last bigint := coalesce(pg_sequence_last_value(tidegate.queue_sequence(p_queue)), 0);
  v_mark bigint := coalesce(pg_sequence_last_value(tidegate.queue_counter(p_queue, 'mark')), 0);
  v_due  timestamptz := to_timestamp(coalesce(pg_sequence_last_value(tidegate.queue_counter(p_queue, 'due')), 0) / 1000000.0);
begin
  execute format(
    $sql$
      select
        look.above + look.below,
        case when look.below = 0 and look.above <= $5 then (
          -- The order and the limit bound the look: a planner that expects many rows would read the whole queue.
          select count(*) filter (where few.vt <= $4)
          from (select m.vt from %1$s as m where m.msg_id > $1 - look.above order by m.msg_id limit $5) as few
        ) end
      from (
        select
          greatest($1 + 1 - (select msg_id from %1$s where msg_id >= $2 order by msg_id limit 1), 0) as above,
          case when $2 > 1 then (
            select count(*)
            from (select msg_id from %1$s where vt > $3 order by vt offset 0) as d
            where d.msg_id < $2
          ) else 0 end as below
        offset 0
      ) as look
    $sql$,
    tidegate.queue_table(p_queue)
  ) into bound, waiting using v_last, v_mark, v_due, clock_timestamp(), v_few;
end;
$$;
