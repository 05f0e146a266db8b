-- policy_activate: Puts a policy in force, its backoffs stretched by `p_stretch`, as a new version with its cause.
--
-- Stretched means longer backoffs, congested twice as long again. Neither takes an attempt away: fewer are made because
-- fewer fit before the deadline. Returns the new version, or null when nothing is different.
create or replace function tidegate_internal.policy_activate(
  p_kind text, p_stage tidegate.stage, p_stretch numeric, p_congested boolean, p_cause text, p_figures jsonb,
  p_now timestamptz
)
  returns integer language plpgsql as $$
declare
  v_most   constant numeric := 2147483647;
  v_policy tidegate.policy;
  v_was    tidegate.policy_in_force;
  v_now_is tidegate.policy_in_force;
  v_longer numeric;
begin
  select * into v_policy from tidegate.policy as p where p.kind = p_kind and p.stage = p_stage for no key update;
  if not found then
    return null;
  end if;
  select * into v_was from tidegate.policy_in_force as f where f.kind = p_kind and f.stage = p_stage for no key update;

  v_now_is := jsonb_populate_record(null::tidegate.policy_in_force, to_jsonb(v_policy));
  -- Changes outlive their policy: one of the same name goes on counting where the earlier one stopped.
  v_now_is.version := 1 + coalesce(
    v_was.version,
    (select max(c.version) from tidegate.policy_change as c where c.kind = p_kind and c.stage = p_stage),
    0
  );
  v_now_is.since := p_now;
  v_now_is.stretch := least(p_stretch, v_policy.stretch_max);
  v_now_is.congested := p_congested;
  v_longer := v_now_is.stretch * case when p_congested then 2 else 1 end;
  v_now_is.base_ms := least(v_policy.base_ms * v_longer, v_most);
  v_now_is.cap_ms := least(v_policy.cap_ms * v_longer, v_most);
  v_now_is.jitter_ms := least(v_policy.jitter_ms * v_longer, v_most);
  -- What was learned stays, within the new bound. An adaptive timeout is its estimator's, and here only the bound.
  if v_policy.timeout_mode = 'percentile' and v_was.timeout_ms is not null then
    v_now_is.timeout_ms := least(v_was.timeout_ms, v_policy.timeout_ms);
  end if;
  v_now_is.hedge_after_ms := case
    when v_policy.hedge_max > 0 then coalesce(v_policy.hedge_after_ms, v_was.hedge_after_ms)
  end;
  if v_policy.timeout_mode <> 'phased' then
    v_now_is.connect_ms := null;
    v_now_is.first_byte_ms := null;
    v_now_is.body_ms := null;
  end if;
  if to_jsonb(v_was) - '{version,since}'::text[] = to_jsonb(v_now_is) - '{version,since}'::text[] then
    return null;
  end if;

  delete from tidegate.policy_in_force as f where f.kind = p_kind and f.stage = p_stage;
  insert into tidegate.policy_in_force select v_now_is.*;
  insert into tidegate.policy_change (at, kind, stage, version, cause, actor, stretch, figures, in_force)
  values (
    p_now, p_kind, p_stage, v_now_is.version, p_cause,
    case when p_cause = 'declared' then coalesce(nullif(current_setting('tidegate.actor', true), ''), session_user) end,
    v_now_is.stretch, p_figures, to_jsonb(v_now_is)
  );
  return v_now_is.version;
end;
$$;
