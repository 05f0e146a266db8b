-- Functions whose body is a text find only qualified objects and those of `pg_catalog`, in whatever session they run.
-- Other bodies are read once, by `migrate`; `maintain` commits, which a procedure with a setting of its own cannot.
do $$
declare
  v_function regprocedure;
begin
  for v_function in
    select p.oid
    from pg_proc as p
    where p.pronamespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace)
      and p.prokind = 'f' and p.prosqlbody is null
  loop
    execute format('alter function %s set search_path = pg_catalog, pg_temp', v_function);
  end loop;
end;
$$;
