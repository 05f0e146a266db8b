-- w_retry_ms: How long the attempts of a policy take at most, with the backoffs between them: W_retry, milliseconds.
--
-- attempts · timeout + Σ min(cap, base · factor^k + jitter) for k = 0 … attempts − 2, exactly. Source: S75-1 and the
-- deadline conservation of the policies' seed; its S75-1 alone leaves the backoffs out and counts jitter apart.
create or replace function tidegate.w_retry_ms(
  attempts integer, timeout_ms integer, base_ms integer, factor numeric, cap_ms integer, jitter_ms integer
)
  returns numeric language plpgsql immutable parallel safe as $$
declare
  v_step numeric := base_ms;
  v_sum  numeric := attempts::numeric * timeout_ms;
begin
  for v_k in 0 .. attempts - 2 loop
    if v_step + jitter_ms >= cap_ms then
      -- From here on every wait is the longest.
      return trim_scale(v_sum + (attempts - 1 - v_k)::numeric * cap_ms);
    end if;
    v_sum := v_sum + v_step + jitter_ms;
    exit when factor = 1 or v_step = 0;
    v_step := v_step * factor;
  end loop;
  -- Without growth all waits are alike.
  if (factor = 1 or base_ms = 0) and attempts > 2 then
    v_sum := v_sum + (attempts - 2)::numeric * (base_ms + jitter_ms);
  end if;
  return trim_scale(v_sum);
end;
$$;
select tidegate_internal.allow('w_retry_ms', '{reader,api,worker,admin}');
