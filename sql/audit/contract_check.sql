-- contract_check: Checks a contract, a JSON array of assertions, against the database: one row per asserted bound, with
-- figures.
--
-- `assertions` is a JSON array of objects: {"type", "kind", "stage", and what the type asserts}. Without a kind or
-- stage an assertion applies to each that its type covers. `place` counts assertions from 1; `holds` is whether the
-- `observed` value is within the `bound`. `value` is its number, null if nothing was measured, or if it is none;
-- `baseline` is the number that `contract_record` stored last. A bound may be {"baseline_times": 1.2, "plus": 0.01}: so
-- many times the baseline, and so much more; it does not hold where a value was measured and no baseline is stored.
-- Reads no more than the newest keys and requests, and the calls of the last five minutes. Raises TG007, with the
-- place, for an invalid assertion.
create or replace function tidegate.contract_check(assertions jsonb)
  returns table (
    place integer, kind text, stage tidegate.stage, type text, member text, holds boolean, observed text, bound text,
    value numeric, baseline numeric, detail text
  )
  language plpgsql stable security definer
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_asked  record;
  v_reason text;
begin
  if jsonb_typeof(contract_check.assertions) is distinct from 'array' or contract_check.assertions = '[]' then
    raise exception using errcode = 'TG007',
      message = 'a contract is a JSON array with at least one assertion',
      hint = 'such as [{"type": "timeout_upper_bound", "kind": "direct", "W_retry_le": 60000}]';
  end if;
  -- All assertions are validated first: an invalid contract is not evaluated in part.
  for v_asked in
    select a.value, a.number from jsonb_array_elements(contract_check.assertions) with ordinality as a(value, number)
  loop
    v_reason := tidegate_internal.contract_refusal(v_asked.value);
    if v_reason is not null then
      raise exception using errcode = 'TG007', message = format('assertion %s: %s', v_asked.number, v_reason);
    end if;
  end loop;

  return query
    select
      a.number::integer, p.kind, p.stage, m.type, m.member,
      case when r.is_missing then o.value is null else o.holds end,
      o.observed,
      case
        when r.is_missing then format('%s %s · baseline%s', m.member, r.times, r.plus)
        else o.bound || case when r.times is not null
          then format(' = %s · %s%s', r.times, trim_scale(round(b.value, 6)), r.plus) else '' end
      end,
      o.value, b.value,
      nullif(concat_ws('; ',
        case when r.is_missing and o.value is not null
          then 'there was no baseline; `tidegate contract check --record` stores one' end,
        o.detail
      ), '')
    from jsonb_array_elements(contract_check.assertions) with ordinality as a(value, number)
    join tidegate_internal.contract_members() with ordinality as m
      on m.type = a.value ->> 'type' and a.value ? m.member
    join tidegate.policy as p
      on p.kind = coalesce(a.value ->> 'kind', p.kind) and p.stage::text = coalesce(a.value ->> 'stage', p.stage::text)
      and p.stage = coalesce(m.about, p.stage)
    join tidegate.kind as k on k.name = p.kind and (p.stage = 'tx' or k.flow = 'decrypt')
    left join tidegate.contract_baseline as b on b.kind = p.kind and b.stage = p.stage and b.member = m.member
    cross join lateral (
      select
        (g.bound ->> 'baseline_times')::numeric as times, ' + ' || (g.bound ->> 'plus') as plus,
        jsonb_typeof(g.bound) = 'object' and b.value is null as is_missing,
        case when jsonb_typeof(g.bound) = 'object'
          then to_jsonb(trim_scale(greatest(
            b.value * (g.bound ->> 'baseline_times')::numeric + coalesce((g.bound ->> 'plus')::numeric, 0), 0
          )))
          else g.bound
        end as bound
      from (select a.value -> m.member) as g(bound)
    ) as r
    cross join lateral tidegate_internal.contract_observe(p.kind, p.stage, m.member, r.bound) as o
    order by a.number, p.kind, p.stage, m.ordinality;
end;
$$;
select tidegate_internal.allow('contract_check', '{reader,admin}');
