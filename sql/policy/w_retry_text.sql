-- w_retry_text: W_retry of a policy with its numbers: 5 · 10000 + (750 + 1250 + 2250 + 4250) = 58500 ms.
create or replace function tidegate_internal.w_retry_text(p_policy tidegate.policy)
  returns text language sql immutable
return (
  format(
    '%s · %s%s = %s ms',
    p_policy.attempts, p_policy.timeout_ms,
    case when p_policy.attempts > 1 then (
      select format(' + (%s%s)', string_agg(trim_scale(w.ms)::text, ' + ' order by w.k),
        case when p_policy.attempts > 7 then format(' + … %s waits in all', p_policy.attempts - 1) else '' end)
      from (
        -- A wait is by how much one more attempt, of no time, is longer.
        select k, t.total - lag(t.total) over (order by k) as ms
        from generate_series(0, least(p_policy.attempts - 1, 6)) as k
        cross join lateral tidegate.w_retry_ms(
          k + 1, 0, p_policy.base_ms, p_policy.factor, p_policy.cap_ms, p_policy.jitter_ms
        ) as t(total)
      ) as w
    ) else '' end,
    tidegate.w_retry_ms(
      p_policy.attempts, p_policy.timeout_ms, p_policy.base_ms, p_policy.factor, p_policy.cap_ms, p_policy.jitter_ms
    )
  )
);
