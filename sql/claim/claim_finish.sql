-- claim_finish: Ends a claim that has leased `p_claimed` of the requests that it took (`p_limits` of `claim_limits`,
-- `p_taken` of `take_messages`): reserves their sends, counts probes, ends the requests that may not be claimed, raises
-- the watermarks and opens the gate.
create or replace function tidegate_internal.claim_finish(
  p_queue text, p_stage tidegate.stage, p_lease_for interval, p_claimed integer, p_limits record, p_taken record
)
  returns void language plpgsql as $$
declare
  v_step       constant bigint := 4000;
  v_due_step   constant interval := interval '200 milliseconds';
  v_reap_slack constant interval := interval '10 seconds';
  v_count      constant integer := coalesce(cardinality(p_taken.ids), 0);
  -- A little behind the present: a message put back a moment ago may not have been committed yet.
  v_due_to     constant timestamptz := least(p_taken.due_to, p_limits.now - interval '100 milliseconds');
  v_due        regclass;
begin
  if p_limits.tat_ns is not null and v_count > 0 then
    perform setval(
      tidegate_internal.queue_counter(p_queue, 'pacing'), p_limits.tat_ns + v_count * p_limits.interval_ns
    );
  end if;
  if (p_limits.breakers).probed <> '{}' then
    update tidegate.breaker as b
    set
      probes = case when b.probe_until <= p_limits.now then 0 else b.probes end + probe.requests,
      -- Counted from the leases' start: the claim may have waited for rows since `p_limits.now`.
      probe_until = tidegate.clock() + p_lease_for + f.timeout_ms * interval '1 ms'
    from (
      select r.kind, count(*)::integer as requests
      from tidegate.request as r
      where r.id = any(p_taken.ids) and r.lease = p_limits.token and r.kind = any((p_limits.breakers).probed)
      group by r.kind
    ) as probe
    join tidegate.policy_in_force as f on f.kind = probe.kind and f.stage = p_stage
    where b.kind = probe.kind and b.stage = p_stage and b.state = 'half_open';
  end if;
  if p_claimed < v_count then
    perform tidegate_internal.end_unclaimed(p_queue, p_stage, p_taken.msg_ids, p_taken.ids, p_limits.now);
  end if;

  -- From here on the claim may hold the watermarks' lock, and waits for no row under it. While an old snapshot is held,
  -- claims that have ended stay in their index, and each later claim would walk over all of them. `rescan_queue` finds
  -- a lease that appears so late, or that this transaction has reaped and does not commit.
  if p_limits.now - p_taken.reaped_to > v_reap_slack + v_due_step
    and pg_try_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'watermark'))
  then
    perform setval(
      tidegate_internal.queue_counter(p_queue, 'reaped'),
      (extract(epoch from p_limits.now - v_reap_slack) * 1000000)::bigint
    )
    -- Read again under the lock: another claim may have raised it since.
    where tidegate_internal.reaped_until(p_queue) < p_limits.now - v_reap_slack and not exists (
      select from tidegate.claim as c
      where c.queue = p_queue and c.until > tidegate_internal.reaped_until(p_queue)
        and c.until <= p_limits.now - v_reap_slack
    );
  end if;
  -- Requests of a lease that ran out were no messages.
  if not p_taken.reaped then
    if v_count > 0 and v_due_to - p_taken.due_from > v_due_step then
      v_due := tidegate_internal.queue_counter(p_queue, 'due');
      if pg_try_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'watermark')) then
        perform setval(
          v_due, greatest((extract(epoch from v_due_to) * 1000000)::bigint, pg_sequence_last_value(v_due))
        );
      end if;
    end if;
    if v_count = 0 or p_limits.kinds is not null then
      perform tidegate_internal.watermarks_pass_skipped(p_queue, v_step, p_limits, p_taken);
    elsif p_taken.first - p_taken.mark > v_step then
      perform tidegate_internal.watermark_advance(p_queue, p_taken.first);
    end if;
  end if;

  -- Last: the requests claimed count at the gate once their rows name the lease.
  if p_claimed < v_count or p_taken.reaped then
    perform tidegate_internal.gate_evaluate(p_queue, 'too_many_requests');
  end if;
end;
$$;
