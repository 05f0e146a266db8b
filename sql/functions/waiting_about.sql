-- tidegate.waiting_about: how many messages of a queue wait, exact up to a limit, beyond that an upper bound by number
--
-- Looks where a claim would: from the queue's low-water mark on, and below it at what has come due.
create or replace function tidegate.waiting_about(
  p_queue       text,
  p_exact_limit integer,
  p_now         timestamptz default clock_timestamp()
)
  returns bigint
  language plpgsql
  stable
as $$
declare
  v_mark    bigint := coalesce(pg_sequence_last_value(tidegate.queue_counter(p_queue, 'mark')), 0);
  v_due_us  bigint := coalesce(pg_sequence_last_value(tidegate.queue_counter(p_queue, 'due')), 0);
  v_waiting bigint;
  v_first   bigint;
  v_due     bigint;
begin
  execute format(
    $sql$
      select
        (select count(*) from (select 1 from %1$s where vt > $4 and vt <= $1 and msg_id < $3 limit $2) as below),
        count(*),
        min(w.msg_id)
      from (select m.msg_id from %1$s as m where m.msg_id >= $3 and m.vt <= $1 order by m.msg_id limit $2) as w
    $sql$,
    tidegate.queue_table(p_queue)
  ) into v_due, v_waiting, v_first using p_now, p_exact_limit, v_mark, to_timestamp(v_due_us / 1000000.0);
  if v_waiting < p_exact_limit then
    return v_due + v_waiting;
  end if;
  return v_due + coalesce(pg_sequence_last_value(tidegate.queue_sequence(p_queue)), v_first) - v_first + 1;
end;
$$;
