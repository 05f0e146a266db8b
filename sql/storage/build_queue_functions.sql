-- build_queue_functions: Gives each function that reads or writes queues' tables a branch for every queue (see
-- `each_queue`).
--
-- Runs when a queue is made or deleted, at the end of `migrate` and from `recover`. A function that is up to date is
-- left alone. One transaction at a time, which sees the queues of those before it.
create or replace function tidegate_internal.build_queue_functions()
  returns void language plpgsql
  set standard_conforming_strings = on
as $$
declare
  v_function record;
begin
  perform tidegate_internal.require_read_committed('making or deleting a queue');
  perform pg_advisory_xact_lock(hashtextextended('tidegate.queue_functions', 0));
  for v_function in select f.signature, f.body, f.wanted from tidegate_internal.queue_functions() as f
    where f.body <> f.wanted
  loop
    execute replace(pg_get_functiondef(v_function.signature), v_function.body, v_function.wanted);
  end loop;
end;
$$;
