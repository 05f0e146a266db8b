-- fit_answer_time: Lets a send of a new kind of flow direct take twice the time in which it is usually answered, in as
-- many attempts as fit, behind a full queue if that leaves room for any; returns the settings that it changed.
create or replace function tidegate_internal.fit_answer_time(p_kind text, p_answer_ms numeric)
  returns table (subject text, name text, value text) language plpgsql as $$
declare
  v_policy tidegate.policy;
  v_behind tidegate.policy;
begin
  select p.* into v_policy
  from tidegate.policy as p
  join tidegate.kind as k on k.name = p.kind
  where p.kind = p_kind and p.stage = 'tx' and k.flow = 'direct' and 2 * p_answer_ms > p.timeout_ms;
  if found then
    v_policy.timeout_ms := ceil(2 * p_answer_ms);
    v_behind := v_policy;
    v_behind.deadline_ms := greatest(0, v_policy.deadline_ms - coalesce((
      select ceil(g.high_water * 1000 / nullif(q.per_seconds, 0))
      from tidegate.kind as k
      join tidegate.queue as q on q.name = k.tx_queue
      join tidegate.gate as g on g.queue = q.name
      where k.name = p_kind
    ), 0));
    v_policy.attempts := coalesce(
      nullif(tidegate_internal.attempts_that_fit(v_behind), 0), tidegate_internal.attempts_that_fit(v_policy)
    );
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
