-- breakers_evaluate: Maintenance duty: evaluates every breaker; returns how many flipped.
--
-- A breaker whose last change is in the future was changed by a clock that has stepped back since, and would stay as it
-- is until the clock gets there: it begins anew now.
create or replace function tidegate.breakers_evaluate()
  returns bigint language plpgsql security definer as $$
begin
  update tidegate.breaker as b
  set
    changed_at = tidegate.clock(), probe_until = case when b.probe_until is not null then tidegate.clock() end,
    open_until = case when b.state = 'open' then tidegate.clock() + p.breaker_open_ms * interval '1 ms' end
  from tidegate.policy as p
  where p.kind = b.kind and p.stage = b.stage and b.changed_at > tidegate.clock() + interval '1 second';

  return (
    select count(*)
    from (select b.kind, b.stage from tidegate.breaker as b where b.state <> 'half_open' order by b.kind, b.stage) as b
    where tidegate_internal.breaker_evaluate(b.kind, b.stage, tidegate.clock())
  );
end;
$$;
select tidegate_internal.allow('breakers_evaluate', '{api,worker,admin}');
