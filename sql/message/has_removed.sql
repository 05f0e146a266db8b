-- has_removed: Whether this transaction may have removed requests from a queue: messages by a delete, leased ones by an
-- update.
--
-- The counts may include earlier transactions of the session. So they are read only for tables that this transaction
-- has written to, by its locks.
create or replace function tidegate_internal.has_removed(p_queue text)
  returns boolean language plpgsql as $$
declare
  v_messages constant regclass := tidegate_internal.queue_table(p_queue)::regclass;
  v_deleted  constant boolean := pg_stat_get_xact_tuples_deleted(v_messages) > 0;
  v_updated  constant boolean := pg_stat_get_xact_tuples_updated('tidegate.request'::regclass) > 0;
begin
  return (v_deleted or v_updated) and exists (
    select from pg_locks as l
    where l.pid = pg_backend_pid() and l.mode = 'RowExclusiveLock'
      and l.database = (select d.oid from pg_database as d where d.datname = current_database())
      and ((v_deleted and l.relation = v_messages) or (v_updated and l.relation = 'tidegate.request'::regclass))
  );
end;
$$;
