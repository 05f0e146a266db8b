-- record_config_change: Trigger on every table of configuration: writes config_change, however a row changes.
--
-- One function for every table of configuration. Its arguments are the columns that are no configuration; the columns
-- of the primary key, joined by dots, name the row. A table that joins them takes the triggers below.
create or replace function tidegate_internal.record_config_change()
  returns trigger language plpgsql security definer
  set intervalstyle = 'postgres'
as $$
declare
  v_keys    text[] := array(
    select a.attname::text
    from pg_index as i
    cross join lateral unnest(i.indkey::smallint[]) with ordinality as k(attnum, place)
    join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
    where i.indrelid = tg_relid and i.indisprimary
    order by k.place
  );
  v_skip    text[] := v_keys || tg_argv::text[];
  v_old     jsonb := to_jsonb(old);
  v_new     jsonb := to_jsonb(new);
  v_old_key text := tidegate_internal.config_key(v_keys, v_old);
  v_new_key text := tidegate_internal.config_key(v_keys, v_new);
begin
  -- `submit_terms` shows the change only after the commit: this transaction submits without them.
  perform set_config('tidegate.config_changed', 'on', true);
  if tg_op = 'TRUNCATE' then
    -- A truncate gives `refresh_terms` no row: without terms, submissions read the configuration itself.
    delete from tidegate.submit_terms where tg_table_name <> 'response_backoff';
    for v_old in execute format('select to_jsonb(t) from %s as t', tg_relid::regclass) loop
      perform tidegate_internal.write_config_change(
        tg_table_name, tidegate_internal.config_key(v_keys, v_old), v_old, null, v_skip
      );
    end loop;
  elsif v_old_key <> v_new_key then
    perform tidegate_internal.write_config_change(tg_table_name, v_old_key, v_old, null, v_skip);
    perform tidegate_internal.write_config_change(tg_table_name, v_new_key, null, v_new, v_skip);
  else
    perform tidegate_internal.write_config_change(tg_table_name, coalesce(v_new_key, v_old_key), v_old, v_new, v_skip);
  end if;
  return null;
end;
$$;

do $$
declare
  v_table record;
begin
  -- The arguments are the columns that are no configuration.
  for v_table in
    select * from (values
      ('setting', 'insert or update or delete', 'initialised_at'),
      ('installation', 'update', 'system_identifier, database_oid, table_oid'),
      ('queue', 'insert or update or delete', 'created_at, kinds, paused_kinds'),
      ('kind', 'insert or update or delete', 'created_at'),
      ('policy', 'insert or update or delete', 'version'),
      ('response_backoff', 'insert or update or delete', ''),
      ('fair_key', 'insert or update or delete', 'key'),
      ('gate', 'insert or delete', 'queue, kind, submitter, state, depth, epoch, changed_at')
    ) as t(name, events, arguments)
  loop
    execute format(
      'create or replace trigger record_config_change after %s on tidegate.%I
       for each row execute function tidegate_internal.record_config_change(%s)',
      v_table.events, v_table.name, v_table.arguments
    );
    execute format(
      'create or replace trigger record_config_truncate before truncate on tidegate.%I
       execute function tidegate_internal.record_config_change(%s)',
      v_table.name, v_table.arguments
    );
  end loop;
end;
$$;

-- A gate that flips by itself is an event (`gate_event`); one that an operator holds is configuration.
create or replace trigger record_gate_change
  after update on tidegate.gate
  for each row
  when (
    new.forced
    or (old.name, old.mode, old.high_water, old.low_water, old.forced)
      is distinct from (new.name, new.mode, new.high_water, new.low_water, new.forced)
  )
  execute function tidegate_internal.record_config_change('queue', 'kind', 'submitter', 'depth', 'epoch', 'changed_at');

-- function policy_version: Trigger on policy: counts its changes in version.
--
-- A decision made by a policy compares this version, to detect that the policy has changed since.
create or replace function tidegate_internal.policy_version()
  returns trigger language plpgsql as $$
begin
  new.version := old.version;
  new.version := old.version + (new is distinct from old)::integer;
  return new;
end;
$$;

create or replace trigger policy_version
  before update on tidegate.policy
  for each row execute function tidegate_internal.policy_version();
