-- tidegate.canonical: one text for equal JSON, whatever its key order and number form
--
-- jsonb already orders keys; only numbers keep their written scale (1.0 is not 1 as text). So the zeros that end a
-- fraction are taken out of jsonb's own text, and strings are passed over. One pass and no recursion, however deep
-- the JSON.
create or replace function tidegate.canonical(p_value jsonb)
  returns text
  language sql
  immutable
  strict
  parallel safe
as $$
  select case
    -- Most texts have no such zeros and are canonical as they are.
    when p_value::text !~ '\.[0-9]*0([^0-9]|$)' then p_value::text
    else regexp_replace(
      p_value::text, '("(?:[^"\\]|\\.)*")|(\.[0-9]*[1-9])0+(?![0-9])|\.0+(?![0-9])', '\1\2', 'g'
    )
  end;
$$;
