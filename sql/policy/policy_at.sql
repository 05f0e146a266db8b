-- policy_at: The policy in force for an attempt that began at `p_began`.
create or replace function tidegate_internal.policy_at(p_kind text, p_stage tidegate.stage, p_began timestamptz)
  returns tidegate.policy_in_force language plpgsql stable as $$
declare
  v_policy tidegate.policy_in_force;
  v_before jsonb;
begin
  select * into v_policy from tidegate.policy_in_force as f where f.kind = p_kind and f.stage = p_stage;
  if v_policy.since <= p_began then
    return v_policy;
  end if;
  select c.in_force into v_before
  from tidegate.policy_change as c
  where c.kind = p_kind and c.stage = p_stage and c.version < v_policy.version and c.at <= p_began
  order by c.version desc
  limit 1;
  return coalesce(jsonb_populate_record(null::tidegate.policy_in_force, v_before), v_policy);
end;
$$;
