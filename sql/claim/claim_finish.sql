-- claim_finish: Ends a claim that has leased `p_claimed` of the requests that it took (`p_limits` of `claim_limits`,
-- `p_taken` of `take_messages`): inserts the row of `claim`, reserves their sends, counts probes, ends the requests
-- that may not be claimed, opens the gate and raises the watermarks. For most claims it only inserts the row.
create or replace function tidegate_internal.claim_finish(
  p_queue text, p_stage tidegate.stage, p_worker text, p_lease_for interval, p_claimed integer,
  p_limits tidegate.claim_limits, p_taken tidegate.taken_messages
)
  returns void language plpgsql as $$
begin
  if p_claimed > 0 then
    insert into tidegate.claim (token, queue, worker, claimed_at, until, lease_ms, ids) values (
      p_limits.token, p_queue, p_worker, tidegate.clock(), tidegate.clock() + p_lease_for,
      ceil(extract(epoch from p_lease_for) * 1000)::bigint, p_taken.ids
    );
  end if;
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
  if p_claimed < cardinality(p_taken.ids) or p_taken.reaped then
    if p_claimed < cardinality(p_taken.ids) then
      perform tidegate_internal.end_unclaimed(p_queue, p_stage, p_taken.msg_ids, p_taken.ids, p_limits.now);
      update tidegate.claim as c
      set ids = array(
        select r.id from tidegate.request as r where r.id = any(p_taken.ids) and r.lease = c.token order by r.msg_id
      )
      where c.token = p_limits.token;
    end if;
    -- The requests claimed count at the gate now that their rows name the lease.
    perform tidegate_internal.gate_evaluate(p_queue, 'too_many_requests');
  end if;

  -- From here on the claim may hold the watermarks' lock, and waits for no row under it. While an old snapshot is held,
  -- claims that have ended stay in their index, and each later claim would walk over all of them. `rescan_queue` finds
  -- a lease that appears so late, or that this transaction has reaped and does not commit.
  if p_limits.now - p_taken.reaped_to > interval '11 seconds'
    and pg_try_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'watermark'))
  then
    perform setval(
      tidegate_internal.queue_counter(p_queue, 'lease_watermark'), (extract(epoch from mark.until) * 1000000)::bigint
    )
    from (select p_limits.now - interval '10 seconds' as until) as mark
    -- Read again under the lock: another claim may have raised it since.
    where tidegate_internal.lease_watermark(p_queue) < mark.until and not exists (
      select from tidegate.claim as c
      where c.queue = p_queue and c.until > tidegate_internal.lease_watermark(p_queue) and c.until <= mark.until
    );
  end if;
  -- Requests of a lease that ran out were no messages. The steps are those of `raise_watermarks`.
  if p_taken.reaped is not true and (
    p_taken.ids is null or p_limits.kinds is not null or p_taken.first - p_taken.mark > 4000
    or least(p_taken.due_to, p_limits.now - interval '100 milliseconds') - p_taken.due_from
      > interval '200 milliseconds'
  ) then
    perform tidegate_internal.raise_watermarks(p_queue, p_limits, p_taken);
  end if;
end;
$$;
