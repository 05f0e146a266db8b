-- unknown_setting: Raises TG010 for a name that no setting has, with a hint that lists names.
create or replace function tidegate_internal.unknown_setting(p_name text)
  returns void language plpgsql stable as $$
declare
  v_row   text := regexp_replace(p_name, '[.][^.]*$', '');
  v_known text;
begin
  select string_agg(c.name, ', ') into v_known from tidegate.config as c where c.row_key = v_row and v_row <> p_name;
  raise exception using errcode = 'TG010',
    message = format('there is no setting "%s"', left(p_name, 100)),
    hint = tidegate_internal.did_you_mean(p_name, array(
      select c.name from tidegate.config as c
      union
      select c.row_key from tidegate.config as c where c.table_name in ('queue', 'kind')
      order by 1
    )) || coalesce(
      v_row || ' has ' || v_known,
      'min_seconds, max_seconds, safety_margin, response_backoff, readiness_check_seconds, tx_confirmation_ms, '
        'KIND_processing_seconds, KIND.deadline, KIND.STAGE.attempts, QUEUE.per_seconds, QUEUE.max_concurrency, '
        'QUEUE.high_water and more: `tidegate config get` lists them all'
    );
end;
$$;
