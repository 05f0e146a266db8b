-- kinds_left: The kinds of a claim; null if they are null, or all that a queue may hold.
create or replace function tidegate_internal.kinds_left(p_queue text, p_stage tidegate.stage, p_kinds text[])
  returns text[] language plpgsql stable as $$
begin
  return case
    when exists (select from tidegate_internal.kinds_of_queue(p_queue, p_stage) as k(name) where k.name <> all(p_kinds))
    then p_kinds
  end;
end;
$$;
