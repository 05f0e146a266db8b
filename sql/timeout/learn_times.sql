-- learn_times: Updates the measured times of a policy in force: its percentile timeout and its hedge delay.
--
-- A timeout is a percentile of the latest latencies times the safety factor, and never above the declared one; a call
-- that was cut off counts with the time it had. Without enough latencies the declared times hold. Hedges start after
-- the 95th percentile, or never while that is unknown. Changes of less than a twentieth are ignored.
create or replace function tidegate_internal.learn_times(p_policy tidegate.policy, p_now timestamptz)
  returns boolean language plpgsql as $$
declare
  v_enough  constant integer := 100;
  v_learned record;
begin
  if p_policy.timeout_mode <> 'percentile' and (p_policy.hedge_max = 0 or p_policy.hedge_after_ms is not null) then
    return false;
  end if;
  select
    count(*) as samples,
    percentile_cont(p_policy.percentile::float8) within group (order by l.ms)
      * p_policy.safety_factor::float8 as timeout_ms,
    percentile_cont(0.95) within group (order by l.ms) as p95_ms
  into v_learned
  from tidegate.call_second as s
  cross join unnest(s.latency_ms) as l(ms)
  where s.kind = p_policy.kind and s.stage = p_policy.stage and s.at > p_now - interval '5 minutes';

  update tidegate.policy_in_force as f
  set timeout_ms = new.timeout_ms, hedge_after_ms = new.hedge_after_ms
  from (
    select
      case
        when p_policy.timeout_mode <> 'percentile' then g.timeout_ms
        when v_learned.samples < v_enough then p_policy.timeout_ms
        else greatest(1, least(p_policy.timeout_ms, ceil(v_learned.timeout_ms)))::integer
      end as timeout_ms,
      case
        when p_policy.hedge_max = 0 or p_policy.hedge_after_ms is not null then g.hedge_after_ms
        when v_learned.samples >= v_enough then greatest(1, ceil(v_learned.p95_ms))::integer
      end as hedge_after_ms
    from tidegate.policy_in_force as g
    where g.kind = p_policy.kind and g.stage = p_policy.stage
  ) as new
  where f.kind = p_policy.kind and f.stage = p_policy.stage
    and (
      abs(new.timeout_ms - f.timeout_ms) * 20 >= f.timeout_ms
      or num_nonnulls(new.hedge_after_ms, f.hedge_after_ms) = 1
      or abs(new.hedge_after_ms - f.hedge_after_ms) * 20 >= f.hedge_after_ms
    )
    and (new.timeout_ms, new.hedge_after_ms) is distinct from (f.timeout_ms, f.hedge_after_ms);
  return found;
end;
$$;
