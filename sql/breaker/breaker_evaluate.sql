-- breaker_evaluate: Opens a closed breaker whose window has too many failed or slow calls; makes an open one half open
-- when its time is over.
--
-- It opens on the share of calls that failed, or when at least half of them took too long. Calls from before its last
-- change do not count.
create or replace function tidegate_internal.breaker_evaluate(p_kind text, p_stage tidegate.stage, p_now timestamptz)
  returns boolean language plpgsql as $$
declare
  v_breaker tidegate.breaker;
  v_policy  tidegate.policy;
  v_calls   record;
  v_cause   text;
begin
  select * into v_breaker from tidegate.breaker as b where b.kind = p_kind and b.stage = p_stage;
  select * into v_policy from tidegate.policy as p where p.kind = p_kind and p.stage = p_stage;
  if v_breaker.state = 'open' and v_breaker.open_until <= p_now then
    return tidegate_internal.breaker_flip(p_kind, p_stage, 'half_open', v_breaker.epoch, 'open time over', null, p_now);
  elsif v_breaker.state is distinct from 'closed' then
    return false;
  end if;

  select * into v_calls
  from tidegate.calls_since(
    p_kind, p_stage, greatest(p_now - make_interval(secs => v_policy.breaker_window_ms / 1000.0), v_breaker.changed_at)
  );
  if v_calls.calls < v_policy.breaker_samples_min then
    return false;
  end if;
  v_cause := case
    when v_calls.failures >= v_policy.breaker_error_rate * v_calls.calls then 'error rate'
    when v_policy.breaker_latency_ms is not null and v_calls.slow * 2 >= v_calls.calls then 'latency'
  end;
  return v_cause is not null and tidegate_internal.breaker_flip(
    p_kind, p_stage, 'open', v_breaker.epoch, v_cause,
    jsonb_build_object('calls', v_calls.calls, 'failures', v_calls.failures, 'slow', v_calls.slow), p_now
  );
end;
$$;
