-- survey_stretches: Counts the waiting messages of some stretches of a queue again; returns how many differed.
--
-- A stretch is 16384 consecutive message numbers, of 64 blocks of 256. Only blocks that lie wholly before `p_end` are
-- counted, and only differences from the last count are written: a quiet queue writes nothing. A stretch without any
-- message, waiting or not, has no row.
create or replace function tidegate_internal.survey_stretches(p_queue text, p_stretches bigint[], p_end bigint)
  returns bigint language plpgsql
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_counted record;
  v_written bigint;
  v_removed bigint;
begin
  -- A small range of the primary key for each block: no statistics can lead the planner to anything else.
  execute format(
    $sql$
      with stretch as (
        select s.stretch, array_agg(c.waiting::smallint order by b.block) as waiting_by_block, sum(c.waiting) as waiting
        from unnest($1) as s(stretch)
        cross join lateral generate_series(s.stretch * 64, least(s.stretch * 64 + 63, $2 / 256 - 1)) as b(block)
        cross join lateral (
          select count(*) as messages, count(*) filter (where m.vt <= $3) as waiting
          from %s as m
          where m.msg_id >= b.block * 256 and m.msg_id < b.block * 256 + 256
        ) as c
        group by s.stretch
        having sum(c.messages) > 0
      )
      select
        array_agg(s.stretch order by s.stretch) as stretches,
        array_agg(s.waiting::integer order by s.stretch) as waiting,
        -- Arrays of different lengths do not aggregate.
        array_agg(s.waiting_by_block::text order by s.stretch) as waiting_by_block
      from stretch as s
    $sql$, tidegate_internal.queue_table(p_queue)
  ) into v_counted using p_stretches, p_end, tidegate.clock();

  insert into tidegate.queue_survey as s (queue, stretch, waiting, waiting_by_block)
  select p_queue, c.stretch, c.waiting, c.waiting_by_block::smallint[]
  from unnest(v_counted.stretches, v_counted.waiting, v_counted.waiting_by_block) as c(stretch, waiting,
    waiting_by_block)
  on conflict (queue, stretch) do update
  set waiting = excluded.waiting, waiting_by_block = excluded.waiting_by_block
  where s.waiting_by_block <> excluded.waiting_by_block;
  get diagnostics v_written = row_count;

  delete from tidegate.queue_survey as s
  where s.queue = p_queue and s.stretch = any(p_stretches) and s.stretch <> all(coalesce(v_counted.stretches, '{}'));
  get diagnostics v_removed = row_count;
  return v_written + v_removed;
end;
$$;
