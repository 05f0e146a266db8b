-- claim_finish: Ends a claim that has leased `p_claimed` of the requests that it took (`p_limits` of `claim_limits`,
-- `p_taken` of `take_messages`): reserves their sends, counts probes, ends the requests that may not be claimed, raises
-- the watermarks and opens the gate.
create or replace function tidegate_internal.claim_finish(
  p_queue text, p_stage tidegate.stage, p_lease_for interval, p_claimed integer, p_limits record, p_taken record
)
  returns void language plpgsql as $$
begin
  if p_limits.tat_ns is not null and p_taken.ids is not null then
    perform setval(
      tidegate_internal.queue_counter(p_queue, 'pacing'),
      p_limits.tat_ns + cardinality(p_taken.ids) * p_limits.interval_ns
    );
  end if;
  if (p_limits.breakers).probed <> '{}' then
    update tidegate.breaker as b
    set
      probes = case when b.probe_until <= p_limits.now then 0 else b.probes end + probe.requests,
      probe_until = p_limits.now + p_lease_for + f.timeout_ms * interval '1 ms'
    from (
      select r.kind, count(*)::integer as requests
      from tidegate.request as r
      where r.id = any(p_taken.ids) and r.lease = p_limits.token and r.kind = any((p_limits.breakers).probed)
      group by r.kind
    ) as probe
    join tidegate.policy_in_force as f on f.kind = probe.kind and f.stage = p_stage
    where b.kind = probe.kind and b.stage = p_stage and b.state = 'half_open';
  end if;
  if p_claimed < cardinality(p_taken.ids) then
    perform tidegate_internal.end_unclaimed(p_queue, p_stage, p_taken.msg_ids, p_taken.ids, p_limits.now);
  end if;
  perform tidegate_internal.watermarks_advance(p_queue, p_limits.batch, p_limits.kinds, p_limits.now, p_taken);
  -- Last: the requests claimed count at the gate once their rows name the lease.
  if p_claimed < cardinality(p_taken.ids) or p_taken.reaped then
    perform tidegate_internal.gate_evaluate(p_queue, 'too_many_requests');
  end if;
end;
$$;
