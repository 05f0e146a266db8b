-- tidegate.config_set: changes one setting by its documented name; everywhere at once, nothing is restarted
--
--   min_seconds, max_seconds, safety_margin          for every answer that says when to come back
--   readiness_check_seconds, tx_confirmation_ms      nominal times of every kind, or of one: KIND.readiness_check_seconds
--   KIND_processing_seconds                          nominal processing time of a kind (also KIND.processing_seconds)
--   QUEUE.per_seconds, QUEUE.burst                   rate of a tx queue; none for no limit, 0 to stop
--   QUEUE.max_concurrency                            concurrency of a readiness queue; none for no limit, 0 to stop
--   QUEUE.high_water, QUEUE.low_water                marks of a queue's gate
--
-- Returns what changed. Raises TG007 for a name it does not know; a value that makes no sense violates a constraint
-- whose name says why.
create or replace function tidegate.config_set(name text, value text)
  returns table (subject text, setting text, old_value text, new_value text)
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_scope   text := nullif(split_part(config_set.name, '.', 1), config_set.name);
  v_setting text := case when v_scope is null then config_set.name else split_part(config_set.name, '.', 2) end;
  v_number  numeric;
  v_table   text;
  v_key     text := 'name';
  v_column  text;
  v_found   bigint;
begin
  if v_scope is null and v_setting like '%\_processing\_seconds' then
    v_scope := left(v_setting, -length('_processing_seconds'));
    v_setting := 'processing_seconds';
  end if;

  begin
    v_number := case when lower(config_set.value) in ('none', 'null') then null else config_set.value::numeric end;
  exception when invalid_text_representation then
    raise exception using
      errcode = 'TG007', message = format('%s is a number or none, not "%s"', config_set.name, config_set.value);
  end;

  case
    when v_scope is null and v_setting in ('min_seconds', 'max_seconds', 'safety_margin') then
      v_table := 'setting'; v_column := v_setting; v_key := 'only_row'; v_scope := 'true';
    when v_setting = 'readiness_check_seconds' then
      v_table := 'kind'; v_column := 'readiness_ms'; v_number := v_number * 1000;
    when v_setting = 'tx_confirmation_ms' then
      v_table := 'kind'; v_column := 'tx_confirmation_ms';
    when v_setting = 'processing_seconds' and v_scope is not null then
      v_table := 'kind'; v_column := 'processing_ms'; v_number := v_number * 1000;
    when v_setting in ('per_seconds', 'burst', 'max_concurrency') and v_scope is not null then
      v_table := 'queue'; v_column := v_setting;
    when v_setting in ('high_water', 'low_water') and v_scope is not null then
      v_table := 'gate'; v_column := v_setting; v_key := 'queue';
    else
      raise exception using
        errcode = 'TG007',
        message = format('there is no setting "%s"', config_set.name),
        hint = 'min_seconds, max_seconds, safety_margin, readiness_check_seconds, tx_confirmation_ms, '
          'KIND_processing_seconds, QUEUE.per_seconds, QUEUE.burst, QUEUE.max_concurrency, QUEUE.high_water, QUEUE.low_water';
  end case;

  return query execute format(
    $sql$
      with before as materialized (
        select %2$I::text as key, %3$I as value from tidegate.%1$I where ($1 is null or %2$I::text = $1) %4$s for update
      )
      update tidegate.%1$I as t
      set %3$I = $2
      from before as b
      where t.%2$I::text = b.key
      returning %5$L || case when b.key = 'true' then '' else ' ' || b.key end, %3$L::text, b.value::text, t.%3$I::text
    $sql$,
    v_table, v_key, v_column, case when v_column = 'readiness_ms' then 'and flow = ''decrypt''' else '' end, v_table
  ) using v_scope, v_number;
  get diagnostics v_found = row_count;
  if v_found = 0 then
    raise exception using errcode = 'TG007', message = format('there is no %s "%s"', v_table, v_scope);
  end if;
end;
$$;
