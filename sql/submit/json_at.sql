-- json_at: What a payload has at a path: names of members joined by dots, such as `order.id`.
--
-- Null where there is no such member. No element of an array can be named: its place says nothing lasting about it.
create or replace function tidegate_internal.json_at(p_value jsonb, p_path text)
  returns jsonb
  language plpgsql
  immutable
  parallel safe
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_name text;
begin
  foreach v_name in array string_to_array(p_path, '.') loop
    p_value := p_value -> v_name;
  end loop;
  return p_value;
end;
$$;
