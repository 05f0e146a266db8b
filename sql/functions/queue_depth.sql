-- tidegate.queue_depth: how many messages a queue holds, waiting, held or put off; beyond some thousands, those that wait
create or replace function tidegate.queue_depth(p_queue text, p_counted integer default 4000)
  returns bigint
  language plpgsql
  stable
as $$
declare
  v_mark  bigint := coalesce(pg_sequence_last_value(tidegate.queue_counter(p_queue, 'mark')), 0);
  v_due   timestamptz := to_timestamp(coalesce(pg_sequence_last_value(tidegate.queue_counter(p_queue, 'due')), 0) / 1000000.0);
  v_depth bigint;
begin
  -- A queue may be gone, with its kinds still there.
  if to_regclass(tidegate.queue_table(p_queue)) is null then
    return 0;
  end if;
  -- From the marks on, as a claim looks: what was served since the last vacuum lies before them.
  execute format(
    $sql$
      select
        (select count(*) from (select 1 from %1$s where msg_id >= $1 order by msg_id limit $3) as above)
        + (
          select count(*)
          from (
            select d.msg_id
            from (select msg_id from %1$s where vt > $2 order by vt offset 0) as d
            where d.msg_id < $1
            limit $3
          ) as below
        )
    $sql$,
    tidegate.queue_table(p_queue)
  ) into v_depth using v_mark, v_due, p_counted;
  if v_depth >= p_counted then
    v_depth := greatest(v_depth, tidegate.waiting_before(p_queue, null, p_counted));
  end if;
  return v_depth;
end;
$$;
