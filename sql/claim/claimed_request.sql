-- The attributes that type claimed_request has besides those of its migration. They come with the functions that return
-- them: between a migration and those, the functions of the earlier version would fail.
do $$
declare
  v_attribute record;
begin
  for v_attribute in
    select n.name, n.type
    from (values (1, 'send_id', 'uuid'), (2, 'traceparent', 'text'), (3, 'begins_trace', 'boolean'))
      as n(place, name, type)
    where not exists (
      select from pg_attribute as a
      where a.attrelid = 'tidegate.claimed_request'::regclass and a.attname = n.name
    )
    order by n.place
  loop
    execute format('alter type tidegate.claimed_request add attribute %I %s', v_attribute.name, v_attribute.type);
  end loop;
end;
$$;
