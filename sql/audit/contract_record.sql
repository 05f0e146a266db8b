-- contract_record: Checks a contract, and stores the values that it has observed as the baseline of later checks.
--
-- Takes and returns what `contract_check` does, compared with the baseline of before. A value that was not measured
-- leaves that one. `actor` is recorded with the values.
create or replace function tidegate.contract_record(assertions jsonb, actor text default null)
  returns table (
    place integer, kind text, stage tidegate.stage, type text, member text, holds boolean, observed text, bound text,
    value numeric, baseline numeric, detail text
  )
  language plpgsql security definer as $$
begin
  return query
    with checked as (
      select c.* from tidegate.contract_check(contract_record.assertions) as c
    ), recorded as (
      insert into tidegate.contract_baseline as b (kind, stage, member, value, on_behalf_of)
      select distinct on (c.kind, c.stage, c.member)
        c.kind, c.stage, c.member, c.value,
        left(coalesce(contract_record.actor, nullif(current_setting('tidegate.actor', true), '')), 200)
      from checked as c
      where c.value is not null
      order by c.kind, c.stage, c.member
      on conflict on constraint contract_baseline_pkey do update
      set value = excluded.value, recorded_at = excluded.recorded_at, actor = excluded.actor,
        on_behalf_of = excluded.on_behalf_of
    )
    select c.* from checked as c;
end;
$$;
select tidegate_internal.allow('contract_record', '{admin}');
