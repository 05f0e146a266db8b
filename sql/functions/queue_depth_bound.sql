-- tidegate.queue_depth_bound: an upper bound of how many messages a queue holds, by their numbers; cheap at any depth
--
-- From the first message to the last number drawn, and what is held or put off below the low-water mark.
create or replace function tidegate.queue_depth_bound(p_queue text)
  returns bigint
  language plpgsql
  stable
as $$
declare
  v_last  bigint := coalesce(pg_sequence_last_value(tidegate.queue_sequence(p_queue)), 0);
  v_mark  bigint := coalesce(pg_sequence_last_value(tidegate.queue_counter(p_queue, 'mark')), 0);
  v_due   timestamptz := to_timestamp(coalesce(pg_sequence_last_value(tidegate.queue_counter(p_queue, 'due')), 0) / 1000000.0);
  v_bound bigint;
begin
  execute format(
    $sql$
      select
        coalesce($1 + 1 - (select msg_id from %1$s where msg_id >= $2 order by msg_id limit 1), 0)
        + case when $2 > 1 then (
          select count(*)
          from (select msg_id from %1$s where vt > $3 order by vt offset 0) as d
          where d.msg_id < $2
        ) else 0 end
    $sql$,
    tidegate.queue_table(p_queue)
  ) into v_bound using v_last, v_mark, v_due;
  return greatest(v_bound, 0);
end;
$$;
