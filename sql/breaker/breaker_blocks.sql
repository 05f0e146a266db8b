-- breaker_blocks: Whether a stage's breaker lets none of its requests be called now.
--
-- Not while it is due to be tried, or tried and a probe is free: then the next request is called. PL/pgSQL, because
-- submissions ask each time and an SQL function with settings is planned at each call.
create or replace function tidegate.breaker_blocks(p_kind text, p_stage tidegate.stage)
  returns boolean language plpgsql stable as $$
begin
  return exists (
    select from tidegate.breaker as b
    join tidegate.policy as p on p.kind = b.kind and p.stage = b.stage
    where b.kind = p_kind and b.stage = p_stage and b.state <> 'closed' and case b.state
      when 'open' then b.open_until > tidegate.clock()
      when 'half_open' then b.probes >= p.breaker_probes and b.probe_until > tidegate.clock()
      else false
    end
  );
end;
$$;
select tidegate_internal.allow('breaker_blocks', '{reader,api,worker,admin}');
