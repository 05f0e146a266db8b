-- gate_count: How deep it is behind a gate: messages of its queue, or its kind's or submitter's requests in queues.
--
-- Exact up to `p_counted`; that when there are more.
create or replace function tidegate_internal.gate_count(p_gate tidegate.gate, p_counted integer)
  returns bigint
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
begin
  if p_gate.queue is not null then
    return (select least(c.depth, p_counted) from tidegate_internal.queue_count(p_gate.queue, p_counted) as c);
  end if;
  return (
    select count(*) from (select from tidegate.quota_usage as m where m.gate = p_gate.name limit p_counted) as member
  );
end;
$$;
