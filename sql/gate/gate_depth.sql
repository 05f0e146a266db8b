-- gate_depth: As `gate_count`; beyond `p_counted`, the waiting messages of a queue by `waiting_before`, and at least
-- some thousands of a quota.
create or replace function tidegate_internal.gate_depth(p_gate tidegate.gate, p_counted integer default 4000)
  returns bigint language plpgsql stable as $$
begin
  return case
    when p_gate.queue is not null then tidegate_internal.queue_depth(p_gate.queue, p_counted)
    else tidegate_internal.gate_count(p_gate, greatest(p_counted, 4000))
  end;
end;
$$;
