-- contract_refusal: The reason why a value is not an assertion of a contract, or null when it is one.
create or replace function tidegate_internal.contract_refusal(p_assertion jsonb)
  returns text language plpgsql stable as $$
declare
  v_type     constant text := p_assertion ->> 'type';
  v_kind     constant text := p_assertion ->> 'kind';
  v_stage    constant text := p_assertion ->> 'stage';
  v_member   record;
  v_known    text;
  v_expected text;
begin
  if jsonb_typeof(p_assertion) is distinct from 'object' then
    return 'it is not an object such as {"type": "timeout_upper_bound", "W_retry_le": 60000}';
  end if;
  select string_agg(m.member, ', ' order by m.ordinality) into v_known
  from tidegate_internal.contract_members() with ordinality as m
  where m.type = v_type;
  if v_known is null then
    return coalesce('there is no type "' || v_type || '"', '"type" is missing') || '; a type is one of ' || (
      select string_agg(t.type, ', ' order by t.place)
      from (
        select m.type, min(m.ordinality) as place
        from tidegate_internal.contract_members() with ordinality as m
        group by m.type
      ) as t
    );
  end if;

  for v_member in
    select j.key, j.value, m.member, m.takes
    from jsonb_each(p_assertion) as j
    left join tidegate_internal.contract_members() as m on m.type = v_type and m.member = j.key
  loop
    continue when v_member.key = 'type';
    if v_member.member is null and v_member.key not in ('kind', 'stage') then
      return format('there is no "%s" in %s; it has type, kind, stage, %s', v_member.key, v_type, v_known);
    end if;
    -- A bound may be relative to its baseline.
    if v_member.member ~ '_(le|ge)$' and jsonb_typeof(v_member.value) = 'object' then
      continue when v_member.value - '{baseline_times,plus}'::text[] = '{}'
        and jsonb_typeof(v_member.value -> 'baseline_times') = 'number'
        and v_member.value -> 'baseline_times' between '0' and '1000'
        and (not v_member.value ? 'plus' or jsonb_typeof(v_member.value -> 'plus') = 'number'
          and v_member.value -> 'plus' between '-1000000000' and '1000000000');
      return format('"%s" is relative as {"baseline_times": 1.2, "plus": 0.01}: 0 to 1000 times the baseline, and up '
        'to a billion more or less, which may be left out; not %s', v_member.key, v_member.value);
    end if;
    select t.words into v_expected
    from (values
      ('kind', jsonb_typeof(v_member.value) = 'string', 'the name of a kind'),
      ('stage', v_member.value in ('"readiness"', '"tx"'), '"readiness" or "tx"'),
      ('time', tidegate_internal.contract_time(v_member.value) is not null,
        'a number of milliseconds or a text such as "24 hours"'),
      ('share', jsonb_typeof(v_member.value) = 'number' and v_member.value between '0' and '1',
        'a number from 0 to 1'),
      ('rate', jsonb_typeof(v_member.value) = 'number' and v_member.value >= '0', 'a number, 0 or more'),
      ('latency',
        v_member.value = '"slo_p99_ms"' or (jsonb_typeof(v_member.value) = 'number' and v_member.value >= '0'),
        'a number of milliseconds, or "slo_p99_ms" for the target of the kind'),
      ('true', v_member.value = 'true', 'true, or left out'),
      ('semantics', v_member.value in ('"at_most_once"', '"at_least_once"', '"exactly_once"'),
        '"at_most_once", "at_least_once" or "exactly_once"')
    ) as t(takes, is_met, words)
    where t.takes = coalesce(v_member.takes, v_member.key) and not t.is_met;
    if found then
      return format('"%s" is %s, not %s', v_member.key, v_expected, v_member.value);
    end if;
  end loop;

  select m.member into v_member
  from tidegate_internal.contract_members() as m
  where m.type = v_type and m.needed and not p_assertion ? m.member;
  if found then
    return format('%s needs "%s"', v_type, v_member.member);
  end if;
  if not exists (
    select from tidegate_internal.contract_members() as m where m.type = v_type and p_assertion ? m.member
  ) then
    return format('%s needs at least one of %s', v_type, v_known);
  end if;

  select m.member, m.about into v_member
  from tidegate_internal.contract_members() as m
  where m.type = v_type and p_assertion ? m.member and m.about::text <> v_stage;
  if found then
    return format('"%s" is about stage %s, not %s', v_member.member, v_member.about, v_stage);
  end if;
  if v_kind is not null and not exists (select from tidegate.kind as k where k.name = v_kind) then
    return format('there is no kind "%s"', v_kind);
  end if;
  if v_stage = 'readiness' and not exists (
    select from tidegate.kind as k where k.flow = 'decrypt' and k.name = coalesce(v_kind, k.name)
  ) then
    return coalesce('kind "' || v_kind || '" has no', 'no kind has a') || ' readiness stage';
  end if;
  return null;
end;
$$;
