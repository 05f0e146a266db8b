-- kinds_left: Of a claim's kinds, null if they are all that a queue may hold, or null themselves.
create or replace function tidegate_internal.kinds_left(p_queue text, p_stage tidegate.stage, p_kinds text[])
  returns text[]
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
begin
  if p_kinds is null
    or not exists (select from tidegate_internal.kinds_of_queue(p_queue, p_stage) as k(name)
      where k.name <> all(p_kinds))
  then
    return null;
  end if;
  return p_kinds;
end;
$$;
