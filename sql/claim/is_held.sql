-- is_held: whether a message is held: leased, and its lease has not run out
--
-- A hold that reaches further than its lease can is none: the clock has stepped back since it was taken.
create or replace function tidegate.is_held(p_headers jsonb, p_visible timestamptz, p_now timestamptz)
  returns boolean
  language sql
  stable
  parallel safe
return (
  p_headers is not null and p_visible > p_now and coalesce(
    p_visible <= p_now + make_interval(secs => case
      when jsonb_typeof(p_headers -> 'lease_ms') = 'number' then (p_headers ->> 'lease_ms')::float8 / 1000
    end),
    false
  )
);

comment on function tidegate.is_held is 'Whether somebody holds a message: leased, and the lease has not run out.';
select tidegate_internal.allow('is_held', '{reader,api,worker,admin}');
