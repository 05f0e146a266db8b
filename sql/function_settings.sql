-- Functions whose body is a text find only qualified objects and those of `pg_catalog`, in whatever session they run:
-- those that roles call have the setting, and triggers. The others run below them, and a setting costs as much as a
-- small query. Bodies that are no text are read once, by `migrate`. `maintain` commits, which a procedure with a
-- setting of its own cannot.
--
-- Those that roles call compile no statement: a compilation takes longer than the statement.
do $$
declare
  v_function record;
begin
  for v_function in
    select p.oid::regprocedure as signature, p.prosecdef and p.prorettype <> 'trigger'::regtype as is_called
    from pg_proc as p
    where p.pronamespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace)
      and p.prokind = 'f' and p.prosqlbody is null
      and (p.prosecdef or p.prorettype = 'trigger'::regtype or p.pronamespace = 'tidegate'::regnamespace)
  loop
    execute format(
      'alter function %s set search_path = pg_catalog, pg_temp %s',
      v_function.signature, case when v_function.is_called then 'set jit = off' end
    );
  end loop;
end;
$$;
