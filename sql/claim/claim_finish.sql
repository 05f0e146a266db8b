-- claim_finish: Ends a claim that has leased `p_claimed` of the requests that `claim_take` took: counts probes, ends
-- the requests that may not be claimed, raises the watermarks and opens the gate.
create or replace function tidegate_internal.claim_finish(
  p_queue text, p_stage tidegate.stage, p_lease_for interval, p_claimed integer, p_taken record
)
  returns void language plpgsql as $$
begin
  if (p_taken.breakers).probed <> '{}' then
    update tidegate.breaker as b
    set
      probes = case when b.probe_until <= p_taken.now then 0 else b.probes end + probe.requests,
      probe_until = p_taken.now + p_lease_for + f.timeout_ms * interval '1 ms'
    from (
      select r.kind, count(*)::integer as requests
      from tidegate.request as r
      where r.id = any(p_taken.ids) and r.lease = p_taken.token and r.kind = any((p_taken.breakers).probed)
      group by r.kind
    ) as probe
    join tidegate.policy_in_force as f on f.kind = probe.kind and f.stage = p_stage
    where b.kind = probe.kind and b.stage = p_stage and b.state = 'half_open';
  end if;
  if p_claimed < cardinality(p_taken.ids) then
    perform tidegate_internal.end_unclaimed(p_queue, p_stage, p_taken.msg_ids, p_taken.ids, p_taken.now);
  end if;
  perform tidegate_internal.watermarks_advance(
    p_queue, p_taken.batch, p_taken.kinds, p_taken.now, cardinality(p_taken.ids), p_taken.mark, p_taken.start,
    p_taken.first, p_taken.due_from, p_taken.due_to
  );
  -- Last: the requests claimed count at the gate once their rows name the lease.
  if p_claimed < cardinality(p_taken.ids) or p_taken.reaped then
    perform tidegate_internal.gate_evaluate(p_queue, 'too_many_requests');
  end if;
end;
$$;
