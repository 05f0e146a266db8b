-- tidegate.waiting_about: how many messages of a queue wait, exact up to 2500, beyond that an upper bound by number
create or replace function tidegate.waiting_about(p_queue text, p_now timestamptz default clock_timestamp())
  returns bigint
  language plpgsql
  stable
as $$
declare
  v_exact_limit constant integer := 2500;
  v_waiting     bigint;
  v_first       bigint;
  v_last        bigint;
begin
  execute format(
    'select count(*), min(w.msg_id) from (select m.msg_id from %s as m where m.vt <= $1 order by m.msg_id limit $2) as w',
    tidegate.queue_table(p_queue)
  ) into v_waiting, v_first using p_now, v_exact_limit;
  if v_waiting < v_exact_limit then
    return v_waiting;
  end if;

  execute format('select max(msg_id) from %s', tidegate.queue_table(p_queue)) into v_last;
  return v_last - v_first + 1;
end;
$$;
