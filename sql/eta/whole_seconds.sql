-- whole_seconds: A Retry-After from a fraction of seconds, rounded up.
--
-- Exact for numerics, where a division could round 6 / 2 up to 4.
create or replace function tidegate.whole_seconds(above numeric, below numeric)
  returns numeric language sql immutable parallel safe
return div(above, below) + sign(mod(above, below));
select tidegate_internal.allow('whole_seconds', '{reader,api,worker,admin}');
