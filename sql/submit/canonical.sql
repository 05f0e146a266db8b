-- canonical: One text for equal JSON, whatever its key order, its number form and the order of its sets.
--
-- jsonb already orders keys; only numbers keep their written scale (1.0 is not 1 as text). So the zeros that end a
-- fraction are removed from jsonb's own text, and strings are left alone. One pass and no recursion, however deep the
-- JSON. The order of an array matters, unless `p_set_paths` names it (see `sort_sets`).
create or replace function tidegate_internal.canonical(p_value jsonb, p_set_paths text[] default null)
  returns text language plpgsql immutable parallel safe as $$
declare
  v_text text;
begin
  if p_set_paths is not null then
    p_value := tidegate_internal.sort_sets(p_value, p_set_paths);
  end if;
  v_text := p_value::text;
  -- Most texts have no such zeros and are canonical as they are.
  if v_text ~ '[.][0-9]*0([^0-9]|$)' then
    v_text := regexp_replace(v_text, E'("(?:[^"\\\\]|\\\\.)*")|([.][0-9]*[1-9])0+(?![0-9])|[.]0+(?![0-9])', E'\\1\\2',
      'g');
  end if;
  return v_text;
end;
$$;
