-- gate_rate: How many messages a queue behind a gate drains per second; null: unknown, 0: stopped.
--
-- The limit of a tx queue, and of a readiness queue, as `eta_seconds` computes, its concurrency at a second a check;
-- without a limit, its recent drain rate. The depth of a gate that closed at its mark some seconds ago gives a better
-- rate, if it has fallen to `p_depth` more slowly than that by more than the safety margin.
create or replace function tidegate_internal.gate_rate(p_gate tidegate.gate, p_queue tidegate.queue, p_depth bigint)
  returns numeric language plpgsql stable as $$
begin
  return (
    select case
      when p_queue.paused then 0
      when fallen.rate * (1 + s.safety_margin) < coalesce(l.rate, p.per_second) then fallen.rate
      else coalesce(l.rate, p.per_second)
    end
    from tidegate.setting as s
    cross join lateral (
      select case when p_queue.stage = 'tx' then p_queue.per_seconds else p_queue.max_concurrency end as rate
    ) as l
    left join tidegate.queue_pace as p
      on p.queue = p_queue.name and p.observed_at > tidegate.clock() - interval '30 seconds' and p.per_second > 0
    cross join lateral (
      -- One more than was seen, for the message that is just being drained.
      select case
        when p_gate.queue = p_queue.name and p_gate.state = 'too_many_requests' and not p_gate.forced
          and p_depth <= p_gate.depth
          and p_gate.changed_at < tidegate.clock() - interval '5 seconds'
        then round((p_gate.depth - p_depth + 1) / extract(epoch from tidegate.clock() - p_gate.changed_at), 3)
      end as rate
    ) as fallen
  );
end;
$$;
