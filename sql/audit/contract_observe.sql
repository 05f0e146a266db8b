-- contract_observe: Evaluates one member of an assertion: observed value, bound, and whether it holds.
--
-- Without measurements an assertion holds, with a note in its detail. `value` is the observed number, times in
-- milliseconds; null without measurements, and for members that are no number.
create or replace function tidegate_internal.contract_observe(
  p_kind text, p_stage tidegate.stage, p_member text, p_bound jsonb,
  out holds boolean, out observed text, out bound text, out value numeric, out detail text
)
  language plpgsql stable as $$
declare
  v_unmeasured constant text := 'nothing was measured in the last 5 minutes';
  v_name       constant text := regexp_replace(p_member, '_le$', '');
  v_policy     tidegate.policy;
  v_force      tidegate.policy_in_force;
  v_time       interval := case when p_member in ('W_retry_le', 'window', 'span_reorder_le')
    then tidegate_internal.contract_time(p_bound) end;
  v_sets       text[] := (select k.set_paths from tidegate.kind as k where k.name = p_kind);
  v_figures    numeric[];
  v_found      record;
  v_history    record;
  v_probe      boolean;
begin
  select * into v_policy from tidegate.policy as p where p.kind = p_kind and p.stage = p_stage;
  select * into v_force from tidegate.policy_in_force as f where f.kind = p_kind and f.stage = p_stage;
  bound := concat_ws(' ', p_member, nullif(coalesce(v_time::text, p_bound #>> '{}'), 'true'));

  case p_member
    when 'W_retry_le' then
      v_figures := array[
        tidegate.w_retry_ms(v_policy.attempts, v_policy.timeout_ms, v_policy.base_ms, v_policy.factor, v_policy.cap_ms,
          v_policy.jitter_ms),
        -- No retry begins later than that, even with longer backoffs.
        least(
          tidegate.w_retry_ms(v_force.attempts, v_force.timeout_ms, v_force.base_ms, v_force.factor, v_force.cap_ms,
            v_force.jitter_ms),
          v_policy.deadline_ms - v_policy.margin_ms
        )
      ];
      value := greatest(v_figures[1], v_figures[2]);
      holds := value * interval '1 ms' <= v_time;
      observed := format('%s ms', trim_scale(round(v_figures[1], 3)));
      bound := format('%s %s ms', p_member, trim_scale(extract(epoch from v_time) * 1000));
      detail := tidegate_internal.w_retry_text(v_policy) || case
        when v_figures[1] <> v_figures[2] then
          format('; in force (version %s): %s ms', v_force.version, trim_scale(round(v_figures[2], 3)))
        else ''
      end;

    when 'p_ok_ge' then
      select c.calls, c.failures, coalesce(c.failures::numeric / nullif(c.calls, 0), 0) as p_drop into v_found
      from tidegate.calls_since(p_kind, p_stage, tidegate.clock() - interval '5 minutes') as c;
      v_figures := array[tidegate.p_ok(v_found.p_drop, v_force.attempts)];
      value := case when v_found.calls > 0 then v_figures[1] end;
      holds := v_figures[1] >= (p_bound #>> '{}')::numeric;
      -- Truncated, because rounding up could show a bound as reached.
      observed := 'p_ok ' || trim_scale(trunc(v_figures[1], 6));
      detail := case when v_found.calls = 0 then v_unmeasured || ': judged by no drops'
        else format('p_drop = %s / %s calls = %s in 5 minutes; 1 − p_drop^%s',
          v_found.failures, v_found.calls, round(v_found.p_drop, 6), v_force.attempts) end;

    when 'key_stability' then
      v_found := tidegate_internal.contract_keys(p_kind, null);
      -- Keys in another order and numbers in another form are the same payload; another number is another one.
      v_probe :=
        tidegate_internal.fingerprint('{"b": [1.0, 2.50], "a": {"d": 1e1, "c": null}}', v_sets)
          = tidegate_internal.fingerprint('{"a": {"c": null, "d": 10.0}, "b": [1, 2.5]}', v_sets)
        and tidegate_internal.fingerprint('{"b": 1}', v_sets) <> tidegate_internal.fingerprint('{"b": 1.01}', v_sets);
      holds := v_found.differing = 0 and v_probe;
      observed := format('%s of %s keys', v_found.keys - v_found.differing, v_found.keys);
      detail := case
        when not v_probe then 'key order or number form changes the fingerprint of the probe'
        when v_found.differing > 0 then
          format('%s keys no longer have the fingerprint of their payload, such as that of request %s',
            v_found.differing, v_found.example)
        else 'have the fingerprint of their payload; key order and number form do not matter'
      end;

    when 'window' then
      holds := v_policy.dedup_window = v_time;
      observed := format('dedup_window %s', v_policy.dedup_window);

    when 'span_reorder_le' then
      value := extract(epoch from v_policy.span_reorder) * 1000;
      v_found := tidegate_internal.contract_keys(p_kind, v_time);
      holds := v_policy.span_reorder <= v_time and v_policy.dedup_window >= v_time and v_found.short = 0;
      observed := format('span_reorder %s, dedup_window %s', v_policy.span_reorder, v_policy.dedup_window);
      detail := case
        when v_policy.dedup_window < v_time then 'the policy''s window is shorter than the bound'
        when v_policy.span_reorder > v_time then 'the policy expects duplicates later than the bound'
        when v_found.short > 0
          then format('%s keys are kept for less, one for %s only', v_found.short, v_found.shortest)
        else format('%s stored keys, none kept for less', v_found.stored)
      end;

    when 'sem' then
      detail := coalesce(tidegate_internal.policy_refusal(v_policy), tidegate_internal.kind_refusal(p_kind));
      holds := detail is null and p_bound #>> '{}' = v_policy.semantics and v_force.semantics = v_policy.semantics;
      observed := v_policy.semantics;
      detail := coalesce(detail, 'no contradiction in the policy');

    when 'no_side_effect_dup' then
      v_history := tidegate_internal.contract_history(p_kind);
      v_found := tidegate_internal.contract_keys(p_kind, null);
      holds := v_history.completed_twice = 0 and v_history.sent_twice = 0
        and (v_policy.semantics = 'at_most_once' or v_found.astray = 0);
      -- Nothing that was sent again is known to have had one effect.
      observed := case
          when not holds then 'no'
          when v_history.sent_again + v_history.key_again > 0 then 'unknown'
          else 'yes'
        end || format(': %s completed twice, %s sent twice, %s keys sent twice', v_history.completed_twice,
          case v_policy.semantics when 'at_most_once' then v_history.sent_twice else v_history.sent_again end,
          v_history.key_again)
        || case when v_policy.semantics <> 'at_most_once' then format(', %s keys astray', v_found.astray) else '' end;
      detail := case
        when v_history.completed_twice > 0 then format('request %s completed twice', v_history.completed_id)
        when v_history.sent_twice > 0 then
          format('request %s was sent again under at_most_once after a send that may have left', v_history.sent_id)
        when not holds then format('%s live keys stand for no request of this kind', v_found.astray)
        when v_history.key_again > 0 then
          format('request %s was sent as a repeat of another that may have been executed', v_history.key_id)
        else format('the newest %s requests and %s live keys; ', v_history.requests, v_found.alive)
          || case v_policy.semantics
            when 'exactly_once' then 'what commits with a receipt happens once'
            when 'at_least_once'
              then 'whether the downstream made one effect of what was sent twice is not provable from here'
            else 'whether the downstream made an effect of what was sent is not provable from here'
          end
      end;

    when 'timeout_rate_le', 'retry_rate_le', 'error_ratio_le', 'dup_drop_rate_le', 'p99_ms_le' then
      select * into v_found from tidegate.sli as s where s.kind = p_kind and s.stage = p_stage;
      value := (to_jsonb(v_found) ->> v_name)::numeric;
      v_figures := array[
        case when p_bound = '"slo_p99_ms"' then v_found.slo_p99_ms else (p_bound #>> '{}')::numeric end
      ];
      -- A kind may have no target.
      holds := coalesce(value <= v_figures[1], true);
      observed := format('%s %s', v_name, trim_scale(coalesce(value, 0)));
      if p_bound = '"slo_p99_ms"' then
        bound := bound || ' = ' || coalesce(v_figures[1]::text, 'none');
      end if;
      detail := case
        when v_figures[1] is null then 'the kind has no latency target'
        when value is null then v_unmeasured
        when p_member = 'dup_drop_rate_le' then 'of the submissions in 5 minutes'
        else format('%s calls for %s requests in 5 minutes', v_found.calls, v_found.requests)
      end;
  end case;
end;
$$;
