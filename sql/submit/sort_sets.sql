-- sort_sets: Sorts the arrays of a payload at the given paths by their elements' canonical text.
--
-- For arrays whose order has no meaning, so that fingerprints and derived keys do not depend on it. Duplicates stay; a
-- path that leads to no array changes nothing. No set is within another, because paths do not lead into arrays.
create or replace function tidegate_internal.sort_sets(p_value jsonb, p_set_paths text[])
  returns jsonb language plpgsql immutable as $$
declare
  v_path text;
  v_set  jsonb;
begin
  foreach v_path in array p_set_paths loop
    v_set := tidegate_internal.json_at(p_value, v_path);
    if jsonb_typeof(v_set) = 'array' and jsonb_array_length(v_set) > 1 then
      p_value := jsonb_set(p_value, string_to_array(v_path, '.'), (
        select jsonb_agg(e.value order by tidegate_internal.canonical(e.value) collate "C")
        from jsonb_array_elements(v_set) as e(value)
      ));
    end if;
  end loop;
  return p_value;
end;
$$;
