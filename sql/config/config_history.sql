-- config_history: Changes of the configuration with actor, time, old and new value, latest first.
--
-- `name` narrows it, as for `config_get`; it may be that of a queue or kind that is gone. `before` is the id of the
-- last change of an earlier page. `setting` is the documented name, the values are in its unit; a value is null before
-- an insert and after a delete. Raises TG010 for a name that neither the history nor the configuration has.
create or replace function tidegate.config_history(
  name text default null, max_rows integer default 100, before bigint default null
)
  returns table (
    id bigint, at timestamptz, actor text, on_behalf_of text, operation text, subject text, setting text,
    old_value text, new_value text, type text
  )
  language plpgsql stable security definer as $$
#variable_conflict use_column
begin
  if config_history.max_rows is null or config_history.max_rows not between 1 and 10000 then
    raise exception using errcode = 'TG007', message = 'max_rows is between 1 and 10000';
  end if;
  return query
    select
      h.id, h.at, h.actor, h.on_behalf_of, h.operation, btrim(h.table_name || ' ' || h.row_key),
      tidegate.config_name(h.table_name, h.row_key, h.column_name),
      tidegate.config_value(c.type, c.factor, h.old_value), tidegate.config_value(c.type, c.factor, h.new_value),
      coalesce(c.type, case h.table_name when 'response_backoff' then 'number' else 'text' end)
    from tidegate.config_change as h
    left join tidegate.config_column as c on c.table_name = h.table_name and c.column_name = h.column_name
    where (config_history.before is null or h.id < config_history.before)
      and (config_history.name is null
        or tidegate_internal.config_answers(config_history.name, h.table_name, h.row_key, h.column_name,
          p_whole => true))
    order by h.id desc
    limit config_history.max_rows;
  if not found and config_history.name is not null and config_history.before is null then
    perform tidegate.config_get(config_history.name);
  end if;
end;
$$;
select tidegate_internal.allow('config_history', '{reader,api,worker,admin}');
