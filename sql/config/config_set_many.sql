-- config_set_many: Changes several settings, one JSON object of names and values, all or none; returns what changed.
--
-- `changes` is one JSON object, such as {"min_seconds": 2, "max_seconds": 600, "tx.per_seconds": "none"}. Settings of
-- one row change in one update, so only the combination has to be valid. The change takes effect
-- everywhere at the commit, without a restart. `actor` goes into the history.
--
-- Returns what changed; nothing when all was so before. Raises TG010 for an unknown name, TG007 for an invalid
-- value, with the constraint that it breaks, TG013 for a policy that cannot hold. Rows are locked
-- in one order, so that two at once come one after the other.
create or replace function tidegate.config_set_many(changes jsonb, actor text default null)
  returns table (subject text, setting text, old_value text, new_value text, type text)
  language plpgsql security definer
  set intervalstyle = 'postgres'
as $$
#variable_conflict use_column
declare
  v_actor_before text := tidegate_internal.set_actor(config_set_many.actor);
  v_plan         jsonb := '[]';
  v_before       jsonb := '{}';
  v_change       record;
  v_row          record;
  v_twice        text;
  v_where        text;
  v_locked       boolean;
  v_constraint   text;
  v_reason       text;
begin
  if jsonb_typeof(changes) is distinct from 'object' then
    raise exception using errcode = 'TG007', message = 'changes are one JSON object, of names and values';
  end if;

  for v_change in select e.key as name, e.value from jsonb_each(changes) as e order by e.key loop
    select v_plan || jsonb_agg(jsonb_build_object(
      'table_name', c.table_name, 'row_key', c.row_key, 'column_name', c.column_name, 'name', c.name,
      'value', case when m.type is null then v_change.value
        else tidegate_internal.config_literal(c.name, case when v_change.name ~ '[.](processing|readiness)_ms$'
          then jsonb_populate_record(m, '{"unit": "ms", "factor": 1}') else m end, v_change.value) end,
      'given', left(coalesce(v_change.value #>> '{}', 'none'), 100)
    ))
    into v_plan
    from tidegate.config as c
    left join tidegate.config_column as m on m.table_name = c.table_name and m.column_name = c.column_name
    where tidegate_internal.config_answers(v_change.name, c.table_name, c.row_key, c.column_name);
    if v_plan is null then
      perform tidegate_internal.unknown_setting(v_change.name);
    end if;
  end loop;

  select p.name into v_twice
  from jsonb_to_recordset(v_plan) as p(name text)
  group by p.name having count(*) > 1
  limit 1;
  if found then
    raise exception using
      errcode = 'TG007', message = format('%s is named twice, by itself or by a name that stands for several', v_twice);
  end if;

  for v_row in
    select
      p.table_name, p.row_key, array_agg(p.name) as names, jsonb_object_agg(p.column_name, p.value) as fields,
      string_agg(format('%I', p.column_name), ', ' order by p.column_name) as columns,
      string_agg(format('n.%I', p.column_name), ', ' order by p.column_name) as new_columns,
      string_agg(p.name || ' = ' || p.given, ', ' order by p.name) as changes_text
    from jsonb_to_recordset(v_plan)
      as p(table_name text, row_key text, column_name text, name text, value jsonb, given text)
    group by p.table_name, p.row_key
    order by array_position(array['setting', 'queue', 'gate', 'kind', 'policy'], p.table_name), p.row_key
  loop
    v_where := case v_row.table_name
      when 'setting' then ''''''
      when 'policy' then 't.kind || ''.'' || t.stage'
      else 't.name'
    end || ' = $1';
    begin
      if v_row.table_name = 'response_backoff' then
        lock table tidegate.response_backoff in share row exclusive mode;
      else
        execute format('select true from tidegate.%I as t where %s for no key update', v_row.table_name, v_where)
          into v_locked using v_row.row_key;
        if v_locked is null then
          perform tidegate_internal.unknown_setting(v_row.names[1]);
        end if;
      end if;
      select v_before || jsonb_object_agg(c.name, c.value) into v_before
      from tidegate.config as c where c.name = any(v_row.names);

      if v_row.table_name = 'response_backoff' then
        perform tidegate_internal.config_set_backoff(v_row.fields -> 'seconds');
      else
        execute format(
          $sql$
            update tidegate.%I as t
            set (%s) = (select %s from jsonb_populate_record(t, $2) as n)
            where %s and to_jsonb(jsonb_populate_record(t, $2)) <> to_jsonb(t)
          $sql$,
          v_row.table_name, v_row.columns, v_row.new_columns, v_where
        ) using v_row.row_key, v_row.fields;
      end if;
    exception
      when check_violation or not_null_violation or data_exception or sqlstate 'TG002' or sqlstate 'TG005' then
        get stacked diagnostics v_constraint = constraint_name, v_reason = message_text;
        raise exception using errcode = 'TG007',
          constraint = coalesce(v_constraint, ''),
          message = format('%s is refused: %s', v_row.changes_text,
            coalesce(replace(nullif(v_constraint, ''), '_', ' '), v_reason)),
          hint = coalesce(tidegate_internal.constraint_hint(v_constraint), 'nothing has changed');
    end;
  end loop;

  -- Kinds and their policies have changed together by now, and must fit each other.
  set constraints tidegate.kind_fits_policies immediate;
  set constraints tidegate.kind_fits_policies deferred;

  perform set_config('tidegate.actor', v_actor_before, true);
  return query
    select c.subject, c.name, v_before ->> c.name, c.value, c.type
    from tidegate.config as c
    where v_before ? c.name and (v_before ->> c.name) is distinct from c.value;
end;
$$;
select tidegate_internal.allow('config_set_many', '{admin}');
