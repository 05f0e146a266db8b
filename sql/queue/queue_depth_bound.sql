-- queue_depth_bound: an upper bound of how many messages a queue holds, by their numbers
--
-- From the first message to the last number drawn, and what is held or put off below the low-water mark; if that is much,
-- from the very first. `waiting`: how many of them may be taken now, if there are few enough to count; else null.
create or replace function tidegate_internal.queue_depth_bound(p_queue text, out bound bigint, out waiting bigint)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_few  constant integer := 256;
  v_many constant integer := 500;
  v_last bigint;
  v_mark bigint;
  v_due  timestamptz;
begin
  -- Somebody may have dropped it.
  if to_regclass(tidegate_internal.queue_table(p_queue)) is null then
    bound := 0;
    waiting := 0;
    return;
  end if;
  v_last := coalesce(pg_sequence_last_value(tidegate_internal.queue_sequence(p_queue)), 0);
  v_mark := coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'mark')), 0);
  v_due := to_timestamp(coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'due')), 0) / 1000000.0);
  execute format(
    $sql$
      select
        case when look.later < $6 then look.above + look.below
          else $1 + 1 - (select m.msg_id from %1$s as m order by m.msg_id limit 1) end,
        case when look.below = 0 and look.above <= $5 then (
          -- The order and the limit bound the look: a planner that expects many rows would read the whole queue.
          select count(*) filter (where few.vt <= $4)
          from (select m.vt from %1$s as m where m.msg_id > $1 - look.above order by m.msg_id limit $5) as few
        ) end
      from (
        select
          greatest($1 + 1 - (select m.msg_id from %1$s as m where m.msg_id >= $2 order by m.msg_id limit 1), 0) as above,
          count(*) as later, count(*) filter (where d.msg_id < $2) as below
        from (select m.msg_id from %1$s as m where $2 > 1 and m.vt > $3 order by m.vt limit $6) as d
      ) as look
    $sql$,
    tidegate_internal.queue_table(p_queue)
  ) into bound, waiting using v_last, v_mark, v_due, tidegate.clock(), v_few, v_many;
end;
$$;

comment on function tidegate_internal.queue_depth_bound is 'At most so many messages are in a queue; cheap at any depth.';
