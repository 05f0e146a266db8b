-- duty_ends: Maintenance: notes that a duty ran, and for how long.
create or replace function tidegate.duty_ends(duty text, began_at timestamptz)
  returns void language plpgsql security definer as $$
begin
  update tidegate.maintenance as m
  set ran_at = began_at, took_ms = round(extract(epoch from tidegate.clock() - began_at) * 1000, 3)
  where m.duty = duty_ends.duty;
end;
$$;
select tidegate_internal.allow('duty_ends', '{api,worker,admin}');
