-- allow: Lets these group roles call a function, and no others; the file of each function that they call ends with it.
--
-- `roles` are named without `tidegate_`; what `api` may call, `node` may, too. The roles are made here, because every
-- grant needs them: group roles without login, to grant to the roles that log in. One that is missing and may not be
-- made is left out; with `migrate --roles existing` none is made.
do $$
declare
  v_role text;
begin
  foreach v_role in array array[
    'tidegate_reader', 'tidegate_api', 'tidegate_node', 'tidegate_worker', 'tidegate_admin'
  ] loop
    if to_regrole(v_role) is null and current_setting('tidegate.roles', true) is distinct from 'existing' then
      begin
        execute format('create role %I nologin', v_role);
      exception
        when duplicate_object or unique_violation then null;
        when insufficient_privilege then
          raise warning 'role % is missing and % may not create it', v_role, current_user;
      end;
    end if;
  end loop;
end;
$$;

create or replace function tidegate_internal.allow(p_function text, p_roles text[])
  returns void language plpgsql as $$
declare
  v_role      text;
  v_signature regprocedure;
  v_may       boolean;
begin
  if not exists (select from pg_proc as p where p.pronamespace = 'tidegate'::regnamespace
    and p.proname = p_function) then
    raise exception 'there is no function tidegate.%', p_function;
  end if;
  for v_role, v_signature, v_may in
    select 'tidegate_' || r.name, p.oid, r.name = any(p_roles) or r.name = 'node' and 'api' = any(p_roles)
    from unnest(array['reader', 'api', 'node', 'worker', 'admin']) as r(name)
    cross join pg_proc as p
    where p.pronamespace = 'tidegate'::regnamespace and p.proname = p_function
      and to_regrole('tidegate_' || r.name) is not null
  loop
    execute format(
      case when v_may then 'grant execute on routine %s to %I' else 'revoke execute on routine %s from %I' end,
      v_signature, v_role
    );
  end loop;
end;
$$;
