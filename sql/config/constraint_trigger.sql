-- constraint_trigger: Creates a deferred constraint trigger on a table of schema tidegate where it is missing.
--
-- PostgreSQL has no `create or replace constraint trigger`. `p_action` is the rest of the statement.
create or replace function tidegate_internal.constraint_trigger(p_name text, p_table text, p_events text, p_action text)
  returns void language plpgsql as $$
begin
  if not exists (
    select from pg_trigger as t where t.tgrelid = format('tidegate.%I', p_table)::regclass and t.tgname = p_name
  ) then
    execute format(
      'create constraint trigger %I after %s on tidegate.%I deferrable initially deferred for each row %s',
      p_name, p_events, p_table, p_action
    );
  end if;
end;
$$;
