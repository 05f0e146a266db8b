-- config_value: The stored value of a column as the value of its setting: in the setting's unit, hours as days, lists
-- with commas.
create or replace function tidegate.config_value(p_type text, p_factor integer, p_stored text)
  returns text language sql stable parallel safe
return (
  case
    when p_type = 'number' then trim_scale(p_stored::numeric / p_factor)::text
    when p_type = 'interval' then justify_hours(p_stored::interval)::text
    when p_type = 'list' and left(p_stored, 1) = '['
      then (select coalesce(string_agg(e.value, ',' order by e.place), '')
            from jsonb_array_elements_text(p_stored::jsonb) with ordinality as e(value, place))
    else p_stored
  end
);
select tidegate_internal.allow('config_value', '{reader,api,worker,admin}');
