-- tidegate.gate_depth: how deep it is behind a gate: messages of its queue, or its kind's or submitter's requests in queues
--
-- Exact up to `p_counted`; beyond, as `queue_depth`, and of a cap up to some thousands at least.
create or replace function tidegate.gate_depth(p_gate tidegate.gate, p_counted integer default 4000)
  returns bigint
  language plpgsql
  stable
as $$
begin
  if p_gate.queue is not null then
    return tidegate.queue_depth(p_gate.queue, p_counted);
  end if;
  return (
    select count(*) from (select from tidegate.gate_member as m where m.gate = p_gate.name limit greatest(p_counted, 4000)) as member
  );
end;
$$;
