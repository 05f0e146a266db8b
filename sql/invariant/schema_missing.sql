-- schema_missing: What `migrate` has made and is gone: functions, views and triggers of Tidegate's schemas.
--
-- As `schema_changes`, by the names alone: a load balancer may ask for it every second.
create or replace function tidegate.schema_missing()
  returns setof text language sql stable security definer as $$
  select o.object
  from (
    select key as object, split_part(key, ' ', 1) as sort, substr(key, strpos(key, ' ') + 1) as name
    from tidegate.schema_state as s
    cross join lateral jsonb_object_keys(s.objects) as key
    where s.schema = 'tidegate'
  ) as o
  where case o.sort
    when 'function' then to_regprocedure(o.name) is null
    when 'view' then to_regclass(o.name) is null
    when 'trigger' then o.name not in (
      select format('%I on %s', t.tgname, c.oid::regclass)
      from pg_trigger as t
      join pg_class as c on c.oid = t.tgrelid
      where c.relnamespace = 'tidegate'::regnamespace
    )
  end;
$$;
select tidegate_internal.allow('schema_missing', '{reader,api,worker,admin}');
