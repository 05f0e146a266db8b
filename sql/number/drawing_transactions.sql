-- drawing_transactions: The oldest and the newest of the other transactions that may have drawn a number of a queue and
-- are open.
--
-- Nulls if there is none; the oldest is 0 if one of them has no transaction id yet: it may be the oldest.
create or replace function tidegate_internal.drawing_transactions(p_queue text, out oldest bigint, out newest bigint)
  language plpgsql volatile as $$
declare
  v_sequence constant oid := tidegate_internal.queue_sequence(p_queue);
  v_near     constant bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 2147483648;
begin
  select min(coalesce(d.xact, 0)), max(d.xact)
  into oldest, newest
  from (
    -- `pg_locks` shows the lower 32 bits of an id, which is less than 2^31 away from the next one.
    select min(v_near - ((v_near - l.transactionid::text::bigint) & 4294967295)) as xact
    from pg_locks as l
    where l.granted and l.pid is distinct from pg_backend_pid()
      and (l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' or l.relation = v_sequence)
    group by l.virtualtransaction
    having bool_or(
      l.relation = v_sequence and l.mode = 'RowExclusiveLock'
      and l.database = (select d.oid from pg_database as d where d.datname = current_database())
    )
  ) as d;
end;
$$;
