-- tidegate.attempts_within: how many attempts fit into `p_budget_ms`, of at most `p_attempts` and at least one
create or replace function tidegate.attempts_within(
  p_budget_ms  numeric,
  p_attempts   integer,
  p_timeout_ms integer,
  p_base_ms    numeric,
  p_factor     numeric,
  p_cap_ms     numeric,
  p_jitter_ms  numeric
)
  returns integer
  language plpgsql
  immutable
as $$
declare
  v_step numeric := p_base_ms;
  v_sum  numeric := p_timeout_ms;
begin
  for v_attempts in 2 .. p_attempts loop
    v_sum := v_sum + p_timeout_ms + least(p_cap_ms, v_step + p_jitter_ms);
    if v_sum > p_budget_ms then
      return v_attempts - 1;
    end if;
    -- Beyond the cap the power no longer matters, and would only grow.
    v_step := least(v_step * p_factor, p_cap_ms);
  end loop;
  return p_attempts;
end;
$$;
