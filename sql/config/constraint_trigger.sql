-- constraint_trigger: Makes a deferred constraint trigger on a table of schema tidegate where it is missing or differs.
--
-- PostgreSQL has no `create or replace constraint trigger`. `p_events` are in the order in which PostgreSQL shows them
-- (insert, delete, update of …), `p_action` is the rest of the statement. `drop_leftovers` reads the setting
-- `tidegate.made`: a trigger that is left alone keeps its old row.
create or replace function tidegate_internal.constraint_trigger(p_name text, p_table text, p_events text, p_action text)
  returns void language plpgsql as $$
declare
  v_statement constant text := format(
    'create constraint trigger %I after %s on tidegate.%I deferrable initially deferred for each row %s', p_name,
    p_events, p_table, p_action
  );
  v_found     constant text := (
    select lower(pg_get_triggerdef(t.oid))
    from pg_trigger as t
    where t.tgrelid = format('tidegate.%I', p_table)::regclass and t.tgname = p_name and t.tgenabled = 'O'
  );
begin
  if v_found is distinct from v_statement then
    execute format('drop trigger if exists %I on tidegate.%I', p_name, p_table);
    execute v_statement;
  end if;
  perform set_config(
    'tidegate.made',
    concat(current_setting('tidegate.made', true), format('[trigger %I on tidegate.%I]', p_name, p_table)), true
  );
end;
$$;
