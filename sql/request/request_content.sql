-- request_content: The payload or the response of a request as text, without what its kind hides (`hidden_paths`).
--
-- `part` is payload or response. At most `most` characters are returned, with the number of all. No row: there is no
-- such request, or it has none.
create or replace function tidegate.request_content(
  id uuid, part text, most integer, out content text, out characters bigint
)
  returns setof record language plpgsql stable security definer as $$
declare
  v_value jsonb;
  v_path  text;
  v_paths text[];
begin
  select case part when 'payload' then r.payload when 'response' then r.response end, k.hidden_paths
  into v_value, v_paths
  from tidegate.request as r
  left join tidegate.kind as k on k.name = r.kind
  where r.id = request_content.id;
  foreach v_path in array coalesce(v_paths, '{}') loop
    v_value := tidegate_internal.without_path(v_value, string_to_array(v_path, '.'));
  end loop;
  content := left(v_value::text, most);
  characters := length(v_value::text);
  if v_value is not null then
    return next;
  end if;
end;
$$;
select tidegate_internal.allow('request_content', '{node,admin}');
