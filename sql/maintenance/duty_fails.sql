-- duty_fails: Maintenance: records that a duty has failed, and since when it does. It has not run: it is overdue until
-- it succeeds.
create or replace function tidegate.duty_fails(duty text, error text)
  returns void language sql security definer as $$
  update tidegate.maintenance as m
  set error = duty_fails.error, failing_since = coalesce(m.failing_since, tidegate.clock())
  where m.duty = any(array(
    select f.duty from tidegate.maintenance as f where f.duty = duty_fails.duty for no key update skip locked
  ));
$$;
select tidegate_internal.allow('duty_fails', '{api,worker,admin}');
