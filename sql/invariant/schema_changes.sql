-- schema_changes: What is not in the schemas as `migrate` left it: functions, triggers, views, grants and group roles,
-- each with what has become of it.
--
-- Of Tidegate's schemas and those of programs that embed it.
create or replace function tidegate.schema_changes()
  returns table (schema text, object text, change text) language sql stable security definer as $$
  select
    s.schema, c.object, case
      when c.made is null then 'is not of this version'
      when c.found is null then 'is missing'
      else 'was changed'
    end
  from tidegate.schema_state as s
  cross join lateral (
    select coalesce(m.key, o.object) as object, m.value as made, o.digest as found
    from jsonb_each_text(s.objects) as m
    full join tidegate_internal.schema_objects(s.schema) as o on o.object = m.key
    where m.value is distinct from o.digest
  ) as c
  where to_regnamespace(s.schema) is not null;
$$;
select tidegate_internal.allow('schema_changes', '{reader,api,worker,admin}');
