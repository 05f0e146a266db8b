-- json_at: The value of a payload at a path: names of members joined by dots, such as `order.id`.
--
-- Null where there is no such member. A path cannot name an element of an array: its index does not identify it for
-- good.
create or replace function tidegate_internal.json_at(p_value jsonb, p_path text)
  returns jsonb language plpgsql immutable as $$
declare
  v_name text;
begin
  foreach v_name in array string_to_array(p_path, '.') loop
    p_value := p_value -> v_name;
  end loop;
  return p_value;
end;
$$;
