-- config_get: Settings with their values: one by its name, all of a queue or kind, or all there are.
--
-- `name` is a setting's documented name, or that of a queue, a kind or KIND.STAGE. Raises TG010 for any other.
create or replace function tidegate.config_get(name text default null)
  returns setof tidegate.config language plpgsql stable security definer
  set intervalstyle = 'postgres'
as $$
begin
  return query
    select c.*
    from tidegate.config as c
    where config_get.name is null
      or tidegate_internal.config_answers(config_get.name, c.table_name, c.row_key, c.column_name, p_whole => true);
  if not found and config_get.name is not null then
    perform tidegate_internal.unknown_setting(config_get.name);
  end if;
end;
$$;
select tidegate_internal.allow('config_get', '{reader,api,worker,admin}');
