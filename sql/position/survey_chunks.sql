-- survey_chunks: Counts the waiting messages of some chunks of a queue again; returns how many differed.
--
-- A chunk is 16384 consecutive message numbers, of 64 blocks of 256. Only blocks that lie wholly before `p_end` are
-- counted, and only differences from the last count are written: a quiet queue writes nothing. A chunk without any
-- message, waiting or not, has no row.
create or replace function tidegate_internal.survey_chunks(p_queue text, p_chunks bigint[], p_end bigint)
  returns bigint language plpgsql as $$
declare
  v_differed bigint;
begin
  -- A small range of the primary key for each block: no statistics can lead the planner to anything else.
  execute format(
    $sql$
      with counted as materialized (
        select s.chunk, sum(c.waiting) as waiting, array_agg(c.waiting::smallint order by b.block) as waiting_by_block
        from unnest($1) as s(chunk)
        cross join lateral generate_series(s.chunk * 64, least(s.chunk * 64 + 63, $2 / 256 - 1)) as b(block)
        cross join lateral (
          select count(*) as messages, count(*) filter (where m.vt <= $3) as waiting
          from %s as m
          where m.msg_id >= b.block * 256 and m.msg_id < b.block * 256 + 256
        ) as c
        group by s.chunk
        having sum(c.messages) > 0
      ), written as (
        insert into tidegate.queue_survey as s (queue, chunk, waiting, waiting_by_block)
        select $4, c.chunk, c.waiting, c.waiting_by_block from counted as c
        on conflict (queue, chunk) do update
        set waiting = excluded.waiting, waiting_by_block = excluded.waiting_by_block
        where s.waiting_by_block <> excluded.waiting_by_block
        returning 1
      ), removed as (
        delete from tidegate.queue_survey as s
        where s.queue = $4 and s.chunk = any($1) and s.chunk not in (select c.chunk from counted as c)
        returning 1
      )
      select (select count(*) from written) + (select count(*) from removed)
    $sql$, tidegate_internal.queue_table(p_queue)
  ) into v_differed using p_chunks, p_end, tidegate.clock(), p_queue;
  return v_differed;
end;
$$;
