-- forget_workers: Removes workers that have not been seen for a day; a maintenance duty.
create or replace function tidegate.forget_workers(unseen_for interval default '1 day')
  returns bigint
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_forgotten bigint;
begin
  delete from tidegate.worker as w where w.last_seen_at < tidegate.clock() - unseen_for;
  get diagnostics v_forgotten = row_count;
  return v_forgotten;
end;
$$;
select tidegate_internal.allow('forget_workers', '{api,worker,admin}');
