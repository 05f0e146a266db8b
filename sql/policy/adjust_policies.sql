-- adjust_policies: Lengthens backoffs while a stage fails or its queue is congested, and undoes it; a maintenance duty.
--
-- A stage whose retry rate or timeout rate over `heal_window` is above its policy's threshold has its backoffs doubled,
-- at most once in `heal_pause` and up to `stretch_max`; when both are below, they are halved again in the same steps.
-- Each step is a `policy_change` with its figures. Returns how many policies changed.
create or replace function tidegate.adjust_policies(p_now timestamptz default tidegate.clock())
  returns bigint language plpgsql security definer as $$
declare
  v_few       constant integer := 20;
  v_settings  tidegate.setting;
  v_congested text[];
  v_seen      record;
  v_policy    tidegate.policy;
  v_force     tidegate.policy_in_force;
  v_calls     record;
  v_stretch   numeric;
  v_cause     text;
  v_changed   bigint := 0;
begin
  select * into v_settings from tidegate.setting as s;
  v_congested := array(
    select q.name
    from tidegate_internal.stored_queues() as q
    where tidegate_internal.queue_is_congested(q, p_now)
  );

  for v_seen in
    select
      p.kind, p.stage,
      coalesce(case p.stage when 'tx' then k.tx_queue else k.readiness_queue end = any(v_congested), false) as congested
    from tidegate.policy as p
    join tidegate.kind as k on k.name = p.kind
    join tidegate.policy_in_force as f on f.kind = p.kind and f.stage = p.stage
    -- Without retries and timeouts no rate is above its threshold. The row is read again under its lock.
    where p.timeout_mode = 'percentile' or (p.hedge_max > 0 and p.hedge_after_ms is null)
      or f.stretch > 1 or f.congested
      or case p.stage when 'tx' then k.tx_queue else k.readiness_queue end = any(v_congested)
      or exists (
        select
        from (table tidegate.call_second union all table tidegate.call_sample) as c
        where c.kind = p.kind and c.stage = p.stage and c.at >= p_now - v_settings.heal_window
          and (c.retries > 0 or c.timeouts > 0)
      )
    order by p.kind, p.stage
  loop
    -- A policy that another transaction is changing is skipped: the next run adjusts it.
    select * into v_policy
    from tidegate.policy as p
    where p.kind = v_seen.kind and p.stage = v_seen.stage
    for no key update skip locked;
    continue when not found;
    perform tidegate_internal.learn_times(v_policy, p_now);

    select * into v_force from tidegate.policy_in_force as f where f.kind = v_seen.kind and f.stage = v_seen.stage;
    v_stretch := v_force.stretch;
    v_cause := null;
    select
      c.calls, round(c.retries::numeric / greatest(c.requests, 1), 4) as retry_rate,
      round(c.timeouts::numeric / greatest(c.requests, 1), 4) as timeout_rate
    into v_calls
    from tidegate.calls_since(v_seen.kind, v_seen.stage, p_now - v_settings.heal_window) as c;
    if not exists (
      select from tidegate.policy_change as c
      where c.kind = v_seen.kind and c.stage = v_seen.stage and c.version = v_force.version
        and c.cause <> 'declared' and c.at > p_now - v_settings.heal_pause and c.at <= p_now
    ) then
      v_cause := case
        when v_calls.calls < v_few then null
        when v_calls.retry_rate > v_policy.heal_retry_rate then 'retry_rate'
        when v_calls.timeout_rate > v_policy.heal_timeout_rate then 'timeout_rate'
      end;
      if v_cause is not null then
        v_stretch := least(v_stretch * 2, v_policy.stretch_max);
      elsif v_stretch > 1 then
        v_stretch := greatest(v_stretch / 2, 1);
        v_cause := 'recovered';
      end if;
    end if;
    v_cause := case
      when v_seen.congested and not v_force.congested then 'congestion'
      when v_force.congested and not v_seen.congested then 'recovered'
      else v_cause
    end;
    continue when v_cause is null or (v_stretch = v_force.stretch and v_seen.congested = v_force.congested);

    v_changed := v_changed + (tidegate_internal.policy_activate(
      v_seen.kind, v_seen.stage, v_stretch, v_seen.congested, v_cause,
      jsonb_build_object(
        'calls', v_calls.calls, 'retry_rate', v_calls.retry_rate, 'timeout_rate', v_calls.timeout_rate,
        'congested', v_seen.congested
      ),
      p_now
    ) is not null)::integer;
  end loop;
  return v_changed;
end;
$$;
select tidegate_internal.allow('adjust_policies', '{api,worker,admin}');
