-- What all functions of this schema have in common; applied after them.
--
-- They find only qualified objects and those of `pg_catalog`, in whatever session they run, and act as their owner:
-- workers may run them, and no role may write the tables.
do $$
declare
  v_function record;
begin
  for v_function in
    select p.oid::regprocedure as signature, p.prosqlbody is null as is_text
    from pg_proc as p where p.pronamespace = 'evm'::regnamespace and p.prokind = 'f'
  loop
    execute format('revoke execute on function %s from public', v_function.signature);
    if to_regrole('tidegate_worker') is not null then
      execute format('grant execute on function %s to tidegate_worker', v_function.signature);
    end if;
    if v_function.is_text then
      execute format(
        'alter function %s security definer set search_path = pg_catalog, pg_temp set jit = off
  -- A plan that is kept may have been made for empty tables: these settings make it one that serves full ones, too.
           set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off
           set plan_cache_mode = force_generic_plan',
        v_function.signature
      );
    end if;
  end loop;
  if to_regrole('tidegate_worker') is not null then
    grant usage on schema evm to tidegate_worker;
  end if;
end;
$$;
