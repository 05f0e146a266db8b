-- policy_refusal: Why a policy cannot hold, or null; the budget and the semantics.
--
-- The budget is W_retry ≤ deadline − margin. The semantics of a stage exclude some settings. Every change of a policy
-- is checked here.
create or replace function tidegate_internal.policy_refusal(p_policy tidegate.policy)
  returns text language plpgsql immutable as $$
declare
  v_budget bigint := p_policy.deadline_ms::bigint - p_policy.margin_ms;
  v_never  text;
begin
  if tidegate.w_retry_ms(
    p_policy.attempts, p_policy.timeout_ms, p_policy.base_ms, p_policy.factor, p_policy.cap_ms, p_policy.jitter_ms
  ) > v_budget then
    return 'W_retry ≤ deadline − margin does not hold: ' || format(
      'attempts · timeout + Σ min(cap, base · factor^k + jitter) = %s > %s − %s = %s ms',
      tidegate_internal.w_retry_text(p_policy), p_policy.deadline_ms, p_policy.margin_ms, v_budget
    );
  end if;

  select r.word into v_never
  from unnest(p_policy.retry_on) as r(word)
  where '4xx' in (r.word, tidegate.error_class(r.word), tidegate.error_class('http_' || r.word))
  limit 1;
  if v_never is not null then
    return format('retry_on lists %s, but a request refused by the downstream is not sent again', v_never);
  end if;
  if p_policy.stage = 'tx' and p_policy.semantics = 'at_most_once' and p_policy.hedge_max > 0 then
    return 'at_most_once and hedge_max > 0 contradict each other: a hedge is a second send';
  end if;
  if p_policy.stage = 'tx' and p_policy.semantics <> 'at_most_once' and p_policy.dedup_window = interval '0' then
    return format('%s needs a dedup_window above zero, to recognise repeated sends', p_policy.semantics);
  end if;
  return null;
end;
$$;
