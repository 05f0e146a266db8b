-- tidegate.recover_storage: makes the pgmq tables and counters of queues that lack them; returns the names of these queues
--
-- What was in such a table, `recover` brings back from the rows. `dry_run` only names them; `run` is whose record counts them.
create or replace function tidegate.recover_storage(dry_run boolean default false, run bigint default null)
  returns setof text
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue tidegate.queue;
begin
  for v_queue in select * from tidegate.missing_storage() loop
    return next v_queue.name;
    continue when dry_run;
    -- Two at once: the second finds it made.
    perform pg_advisory_xact_lock(tidegate.queue_lock_key(v_queue.name, 'storage'));
    if exists (select from tidegate.missing_storage() as q where q.name = v_queue.name) then
      perform tidegate.make_storage(v_queue.name, v_queue.stage);
      perform tidegate.note_recovery(run, '{"storages": 1}');
    end if;
  end loop;
end;
$$;
