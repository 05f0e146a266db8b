-- config_key: The key of a row of configuration: the values of its primary key, joined by dots.
--
-- Empty for a table with one row. An interval reads in seconds, so that equal ones have one name.
create or replace function tidegate_internal.config_key(p_columns text[], p_row jsonb)
  returns text language sql stable
return (
  case p_columns
    when array['only_row'] then ''
    when array['from_elapsed'] then tidegate.interval_seconds((p_row ->> 'from_elapsed')::interval)
    else (
      select string_agg(p_row ->> c.name, '.' order by c.place)
      from unnest(p_columns) with ordinality as c(name, place)
    )
  end
);
