-- gate_count: The depth behind a gate: requests of its queue, or its kind's or submitter's requests in queues; exact up
-- to `p_counted`, which it returns when there are more.
create or replace function tidegate_internal.gate_count(p_gate tidegate.gate, p_counted integer)
  returns bigint language plpgsql stable as $$
begin
  return case
    when p_gate.queue is not null
      then (select least(c.depth, p_counted) from tidegate_internal.queue_count(p_gate.queue, p_counted) as c)
    else (select count(*) from (select from tidegate.quota_usage as u where u.gate = p_gate.name limit p_counted) as u)
  end;
end;
$$;
