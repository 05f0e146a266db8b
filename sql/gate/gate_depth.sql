-- gate_depth: As `gate_count`; beyond `p_counted`, the messages of a queue that wait, as `waiting_before` tells, and of
-- a cap some thousands at least.
create or replace function tidegate_internal.gate_depth(p_gate tidegate.gate, p_counted integer default 4000)
  returns bigint
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
begin
  if p_gate.queue is not null then
    return tidegate_internal.queue_depth(p_gate.queue, p_counted);
  end if;
  return tidegate_internal.gate_count(p_gate, greatest(p_counted, 4000));
end;
$$;
