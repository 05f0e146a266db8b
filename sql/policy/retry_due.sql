-- retry_due: When the next attempt of a stage is due, or null when it would begin at `p_until` or later.
--
-- After the backoff, or after `p_after`, the Retry-After of the downstream, if the policy respects it and it is longer:
-- a downstream that says 0 again and again is not called more often than the policy says. No longer wait ends a request
-- that the declared backoff would continue, be it the downstream's or one lengthened by healing or congestion: it is
-- cut, down to the declared one, so that the next attempt has time for its calls (of a repeated send: for a receipt,
-- and the send). Backoffs after more attempts than the policy has, because some used none, are a second at least.
create or replace function tidegate_internal.retry_due(
  p_policy tidegate.policy_in_force, p_attempt integer, p_after interval, p_until timestamptz, p_now timestamptz
)
  returns timestamptz language plpgsql as $$
declare
  v_longer constant numeric := p_policy.stretch * case when p_policy.congested then 2 else 1 end;
  v_wait     interval := tidegate_internal.backoff(
    p_attempt, p_policy.base_ms, p_policy.factor, p_policy.cap_ms, p_policy.jitter_ms, 2 * random() - 1
  );
  v_declared interval := v_wait / v_longer::float8;
begin
  if p_attempt >= p_policy.attempts then
    v_wait := greatest(v_wait, interval '1 second');
    v_declared := greatest(v_declared, interval '1 second');
  end if;
  if p_policy.respect_retry_after then
    v_wait := greatest(v_wait, p_after);
  end if;
  v_wait := least(v_wait, greatest(
    v_declared,
    p_until - p_now - p_policy.timeout_ms * case p_policy.stage when 'tx' then 2 else 1 end * interval '1 ms'
  ));
  return case when p_now + v_wait < p_until then p_now + v_wait end;
end;
$$;
