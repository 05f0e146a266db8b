-- whole_seconds: A Retry-After from a fraction of seconds, rounded up.
--
-- Exact for numerics: 6 of 2 is 3, not 4, whatever a division would make of it.
create or replace function tidegate.whole_seconds(above numeric, below numeric)
  returns numeric
  language sql
  immutable
  parallel safe
return div(above, below) + sign(mod(above, below));
select tidegate_internal.allow('whole_seconds', '{reader,api,worker,admin}');
