-- is_held: Whether a lease is in force: it has not run out.
--
-- A lease that ends later than its length from now counts as run out: the clock has stepped back since it was taken.
create or replace function tidegate.is_held(p_until timestamptz, p_lease_ms bigint, p_now timestamptz)
  returns boolean language sql stable parallel safe
return p_until > p_now and p_until <= p_now + p_lease_ms * interval '1 ms';
select tidegate_internal.allow('is_held', '{reader,api,worker,admin}');
