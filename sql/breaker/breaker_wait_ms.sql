-- breaker_wait_ms: For how long the breakers keep everything in a queue from being called, in milliseconds; 0: they do
-- not.
create or replace function tidegate_internal.breaker_wait_ms(p_queue text, p_stage tidegate.stage, p_now timestamptz)
  returns numeric
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
begin
  return (
    select coalesce(min(case
      when b.state = 'open' then greatest(0, extract(epoch from b.open_until - p_now) * 1000)
      when b.state = 'half_open' and b.probes >= p.breaker_probes and b.probe_until > p_now then 250
      else 0
    end), 0)
    from tidegate_internal.kinds_of_queue(p_queue, p_stage) as k(name)
    join tidegate.policy as p on p.kind = k.name and p.stage = p_stage
    left join tidegate.breaker as b on b.kind = k.name and b.stage = p_stage
  );
end;
$$;
