-- attempts_that_fit: The most attempts, up to those of a policy, whose W_retry is within its budget; 0: not one.
create or replace function tidegate_internal.attempts_that_fit(p_policy tidegate.policy)
  returns integer language sql immutable
return (
  select coalesce(max(n), 0)
  from generate_series(1, p_policy.attempts) as n
  where tidegate.w_retry_ms(
    n, p_policy.timeout_ms, p_policy.base_ms, p_policy.factor, p_policy.cap_ms, p_policy.jitter_ms
  ) <= p_policy.deadline_ms::bigint - p_policy.margin_ms
);
