-- policy_refusal: Why a policy cannot hold, or null; the budget and the semantics.
--
-- The budget is W_retry ≤ deadline − margin. The semantics of a stage exclude some settings. Every change of a policy
-- is checked here.
create or replace function tidegate_internal.policy_refusal(p_policy tidegate.policy)
  returns text language plpgsql immutable as $$
declare
  v_budget bigint := p_policy.deadline_ms::bigint - p_policy.margin_ms;
  v_never  text;
  v_unfit  text;
begin
  if tidegate.w_retry_ms(
    p_policy.attempts, p_policy.timeout_ms, p_policy.base_ms, p_policy.factor, p_policy.cap_ms, p_policy.jitter_ms
  ) > v_budget then
    return 'W_retry ≤ deadline − margin does not hold: ' || format(
      'attempts · timeout + Σ min(cap, base · factor^k + jitter) = %s > %s − %s = %s ms; what fits: %s'
      'deadline_ms ≥ %s',
      tidegate_internal.w_retry_text(p_policy), p_policy.deadline_ms, p_policy.margin_ms, v_budget,
      'attempts ≤ ' || nullif(tidegate_internal.attempts_that_fit(p_policy), 0) || ', or ',
      ceil(tidegate.w_retry_ms(
        p_policy.attempts, p_policy.timeout_ms, p_policy.base_ms, p_policy.factor, p_policy.cap_ms, p_policy.jitter_ms
      )) + p_policy.margin_ms
    );
  end if;

  select r.word into v_never
  from unnest(p_policy.retry_on) as r(word)
  where '4xx' in (r.word, tidegate.error_class(r.word), tidegate.error_class('http_' || r.word))
  limit 1;
  if v_never is not null then
    return format('retry_on lists %s, but a request refused by the downstream is not sent again', v_never);
  end if;
  select r.word into v_unfit
  from unnest(p_policy.retry_on) as r(word)
  where r.word ~* '^!?(timeouts|time_out|connects|connections?|throttle|throttling|unauthori[sz]ation|unauthorised|5x'
    '|5[*][*]|http_?5xx|others)$'
  limit 1;
  if v_unfit is not null then
    return format('retry_on has %s, which is close to a class and none; the classes are timeout, connect, throttled, '
      'unauthorized, 5xx and other', v_unfit);
  end if;
  select r.word into v_unfit
  from unnest(p_policy.retry_on) as r(word)
  cross join lateral (select substr(r.word, 2)) as x(code)
  where r.word like '!%' and (
    x.code in ('', 'timeout', 'connect', '5xx', 'throttled', 'unauthorized', '4xx', 'other')
    or x.code = any(p_policy.retry_on)
    or tidegate.error_class(case when x.code ~ '^[0-9]{3}$' then 'http_' else '' end || x.code)
      <> all(p_policy.retry_on)
  )
  limit 1;
  if v_unfit is not null then
    return format('retry_on has %s, but only a code or a status of a class that it lists can be excluded, such as !501 '
      'beside 5xx', v_unfit);
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
