-- without_path: A JSON value with "(hidden)" for what is at a path, in each element of the arrays on the way.
create or replace function tidegate_internal.without_path(p_value jsonb, p_path text[])
  returns jsonb language plpgsql immutable as $$
begin
  if cardinality(p_path) = 0 then
    return '"(hidden)"';
  elsif jsonb_typeof(p_value) = 'array' then
    return (
      select coalesce(jsonb_agg(tidegate_internal.without_path(e.value, p_path) order by e.place), '[]')
      from jsonb_array_elements(p_value) with ordinality as e(value, place)
    );
  elsif jsonb_typeof(p_value) = 'object' and p_value ? p_path[1] then
    return p_value || jsonb_build_object(
      p_path[1], tidegate_internal.without_path(p_value -> p_path[1], p_path[2:]));
  end if;
  return p_value;
end;
$$;
