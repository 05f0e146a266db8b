-- duties_end: Maintenance: records that duties ran: when each began, and how long it took.
--
-- A row that is locked is left: the session that runs the duty there records it, and a wait could be for a session that
-- waits for this one. A later record stays, too.
create or replace function tidegate.duties_end(duties text[], began_at timestamptz[], took interval[])
  returns void language plpgsql security definer as $$
begin
  update tidegate.maintenance as m
  set
    ran_at = e.began_at, took_ms = round(extract(epoch from e.took) * 1000, 3), error = null, failing_since = null
  from unnest(duties, duties_end.began_at, duties_end.took) as e(duty, began_at, took)
  where m.duty = e.duty and m.ran_at not between e.began_at and tidegate.clock() and m.duty = any(array(
    select f.duty from tidegate.maintenance as f where f.duty = any(duties) for no key update skip locked
  ));
end;
$$;
select tidegate_internal.allow('duties_end', '{api,worker,admin}');
