-- fit_answer_time: Lets a send of a new kind of flow direct take twice the time in which it is usually answered, in as
-- many attempts as fit; returns the settings that it changed.
create or replace function tidegate_internal.fit_answer_time(p_kind text, p_answer_ms numeric)
  returns table (subject text, name text, value text) language plpgsql as $$
declare
  v_policy tidegate.policy;
begin
  select p.* into v_policy
  from tidegate.policy as p
  join tidegate.kind as k on k.name = p.kind
  where p.kind = p_kind and p.stage = 'tx' and k.flow = 'direct' and 2 * p_answer_ms > p.timeout_ms;
  if found then
    v_policy.timeout_ms := ceil(2 * p_answer_ms);
    v_policy.attempts := tidegate_internal.attempts_that_fit(v_policy);
    return query
      with fitted as (
        update tidegate.policy as p
        set timeout_ms = v_policy.timeout_ms, attempts = v_policy.attempts
        where p.kind = p_kind and p.stage = 'tx'
        returning p.*
      )
      select 'policy ' || f.kind || '.tx', s.name, s.value
      from fitted as f
      cross join lateral (values ('timeout_ms', f.timeout_ms::text), ('attempts', f.attempts::text)) as s(name, value);
  end if;
end;
$$;
