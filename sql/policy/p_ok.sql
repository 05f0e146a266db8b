-- p_ok: The probability that at least one of several attempts succeeds, if each fails with probability `p_drop`.
create or replace function tidegate.p_ok(p_drop numeric, attempts integer)
  returns numeric language sql immutable parallel safe
return 1 - power(p_drop, attempts::numeric);
select tidegate_internal.allow('p_ok', '{reader,api,worker,admin}');
