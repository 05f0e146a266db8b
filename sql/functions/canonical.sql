-- tidegate.canonical: one text for equal JSON, whatever its key order and number form, and the order of its sets
--
-- jsonb already orders keys; only numbers keep their written scale (1.0 is not 1 as text). So the zeros that end a
-- fraction are taken out of jsonb's own text, and strings are passed over. One pass and no recursion, however deep
-- the JSON. The order of an array matters, unless `p_set_paths` names it (see `sort_sets`).
-- An earlier version has other parameters.
drop function if exists tidegate.canonical(jsonb);

create or replace function tidegate.canonical(p_value jsonb, p_set_paths text[] default null)
  returns text
  language sql
  immutable
  parallel safe
as $$
  select case
    when p_set_paths is not null then tidegate.canonical(tidegate.sort_sets(p_value, p_set_paths))
    -- Most texts have no such zeros and are canonical as they are.
    when p_value::text !~ '\.[0-9]*0([^0-9]|$)' then p_value::text
    else regexp_replace(
      p_value::text, '("(?:[^"\\]|\\.)*")|(\.[0-9]*[1-9])0+(?![0-9])|\.0+(?![0-9])', '\1\2', 'g'
    )
  end;
$$;
