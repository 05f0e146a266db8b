-- tidegate.canonical: one text for equal JSON, whatever its key order and number form
--
-- jsonb already orders keys; only numbers keep their written scale (1.0 is not 1 as text). Text without a
-- fraction that ends in zero is canonical as it is, so most payloads never take the walk.
create or replace function tidegate.canonical(p_value jsonb)
  returns text
  language plpgsql
  immutable
  strict
  parallel safe
as $$
begin
  if p_value::text !~ '\.[0-9]*0([^0-9]|$)' then
    return p_value::text;
  end if;

  case jsonb_typeof(p_value)
    when 'number' then
      return trim_scale((p_value #>> '{}')::numeric)::text;
    when 'array' then
      return '[' || coalesce((
        select string_agg(tidegate.canonical(element), ', ' order by ord)
        from jsonb_array_elements(p_value) with ordinality as e(element, ord)
      ), '') || ']';
    when 'object' then
      return '{' || coalesce((
        select string_agg(to_jsonb(k)::text || ': ' || tidegate.canonical(v), ', ' order by length(k), k collate "C")
        from jsonb_each(p_value) as e(k, v)
      ), '') || '}';
    else
      return p_value::text;
  end case;
end;
$$;
