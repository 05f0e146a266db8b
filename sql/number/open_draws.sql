-- open_draws: How many numbers of a queue other transactions may have drawn and neither committed nor rolled back.
--
-- By the locks of `nextval` and `register_draw`, prepared transactions included.
create or replace function tidegate_internal.open_draws(p_queue text)
  returns bigint language plpgsql volatile as $$
declare
  v_sequence constant oid := tidegate_internal.queue_sequence(p_queue);
begin
  return (
    select coalesce(sum(case l.locktype when 'relation' then 1
      else 1::bigint << (l.objid::bigint >> 27)::integer end), 0)
    from pg_locks as l
    where l.database = (select d.oid from pg_database as d where d.datname = current_database())
      and l.pid is distinct from pg_backend_pid() and l.granted and (
        (l.locktype = 'relation' and l.relation = v_sequence and l.mode = 'RowExclusiveLock')
        or (l.locktype = 'advisory' and l.classid = v_sequence and l.objsubid = 2 and l.mode = 'ShareLock')
      )
  );
end;
$$;
