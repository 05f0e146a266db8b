-- The attributes that type claimed_request has besides those of its migration. They come with the functions that return
-- them: between a migration and those, the functions of the earlier version would fail.
do $$
begin
  if not exists (
    select from pg_attribute as a
    where a.attrelid = 'tidegate.claimed_request'::regclass and a.attname = 'send_id'
  ) then
    alter type tidegate.claimed_request add attribute send_id uuid;
  end if;
end;
$$;
