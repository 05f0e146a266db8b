-- write_config_change: Writes the history of one row of configuration, and notifies the processes that keep a copy.
--
-- A row of `config_change` for each column that differs, but for those in `p_skip`; nothing when none does. `p_old` is
-- null for an insert, `p_new` for a delete. The notification goes out with the commit: changes are rare.
create or replace function tidegate_internal.write_config_change(
  p_table text, p_key text, p_old jsonb, p_new jsonb, p_skip text[]
)
  returns void language plpgsql as $$
begin
  insert into tidegate.config_change (operation, table_name, row_key, column_name, old_value, new_value)
  select
    case when p_old is null then 'insert' when p_new is null then 'delete' else 'update' end,
    p_table, p_key, c.name, p_old ->> c.name, p_new ->> c.name
  from jsonb_object_keys(coalesce(p_new, p_old)) with ordinality as c(name, place)
  where c.name <> all(p_skip) and (p_old -> c.name) is distinct from (p_new -> c.name)
    and (p_old ->> c.name) is distinct from (p_new ->> c.name)
  order by c.place;
  if found then
    perform pg_notify('tidegate_config', btrim(p_table || ' ' || p_key));
  end if;
end;
$$;
