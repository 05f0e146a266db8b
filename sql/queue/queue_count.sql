-- queue_count: how many messages a queue holds, and how many of them wait; exact, as far as `p_counted`
--
-- From the marks on, as a claim looks: what was served since the last vacuum lies before them.
create or replace function tidegate_internal.queue_count(p_queue text, p_counted integer, out depth bigint, out waiting bigint)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_mark bigint := coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'mark')), 0);
  v_due  timestamptz :=
    to_timestamp(coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'due')), 0) / 1000000.0);
begin
  -- A queue may be gone, with its kinds still there.
  if to_regclass(tidegate_internal.queue_table(p_queue)) is null then
    depth := 0;
    waiting := 0;
    return;
  end if;
  execute format(
    $sql$
      select count(*), count(*) filter (where m.vt <= $4)
      from (
        (select vt from %1$s where msg_id >= $1 order by msg_id limit $3)
        union all
        (
          select d.vt
          from (select msg_id, vt from %1$s where $1 > 1 and vt > $2 order by vt offset 0) as d
          where d.msg_id < $1
          limit $3
        )
      ) as m
    $sql$,
    tidegate_internal.queue_table(p_queue)
  ) into depth, waiting using v_mark, v_due, p_counted, tidegate.clock();
end;
$$;

comment on function tidegate_internal.queue_count is
  'How many messages a queue holds, and how many of them wait, counted as far as a limit.';
