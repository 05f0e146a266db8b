-- plan_along_indexes: Gives a function the planner settings that leave each of its statements one plan: joined as
-- written, along indexes.
--
-- The file of each function whose plans have to stay cheap on full tables ends with it. `p_also` is one more planner
-- method to switch off. A function that roles call, or that settles for them, keeps one generic plan for all
-- parameters.
create or replace function tidegate_internal.plan_along_indexes(p_function text, p_also text default 'seqscan')
  returns void language plpgsql as $$
declare
  v_function pg_proc;
begin
  select * into strict v_function
  from pg_proc as p
  where p.proname = p_function and p.pronamespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace);
  -- A plan that is kept may have been made for empty tables: these settings make it one that serves full ones, too.
  execute format(
    'alter function %s set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
       set join_collapse_limit = 1 set %I = off %s',
    v_function.oid::regprocedure, 'enable_' || p_also,
    case when v_function.prosecdef or starts_with(p_function, 'settle_') then
      'set plan_cache_mode = force_generic_plan' end
  );
end;
$$;
