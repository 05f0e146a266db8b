-- oldest_draw: the oldest of the other transactions that may have drawn a number of a queue and are still open
--
-- Null if there is none, 0 if one of them has no transaction id yet: it may be the oldest.
create or replace function tidegate_internal.oldest_draw(p_queue text)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_sequence constant oid := tidegate_internal.queue_sequence(p_queue);
  v_next     constant bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
begin
  return (
    select min(d.xact)
    from (
      select
        -- `pg_locks` tells the lower 32 bits of an id, which is less than 2^31 away from the next one.
        coalesce(min(v_next + 2147483648 - ((v_next + 2147483648 - l.transactionid::text::bigint) & 4294967295)), 0) as xact
      from pg_locks as l
      where l.granted and l.pid is distinct from pg_backend_pid()
        and (l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' or l.relation = v_sequence)
      group by l.virtualtransaction
      having bool_or(
        l.relation = v_sequence and l.mode = 'RowExclusiveLock'
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
      )
    ) as d
  );
end;
$$;

comment on function tidegate_internal.oldest_draw is
  'The oldest of the other transactions that may have drawn a number of a queue and are still open.';
