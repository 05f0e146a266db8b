-- kind_refusal: Why a kind's deadline or its latency target cannot hold its policies, in words, or null when both can.
--
-- Its stages come one after the other, so their bounds add up (S75-5). A call may not take longer than the target of
-- the 99th percentile (P75-7): it would miss the target before it times out.
create or replace function tidegate_internal.kind_refusal(p_kind text)
  returns text language sql stable as $$
  select case
    when sum(b.w_retry_ms) > b.deadline_ms then format(
      'Σ W_retry ≤ deadline of the kind does not hold: %s = %s > %s ms',
      string_agg(format('%s (%s)', b.w_retry_ms, b.stage), ' + ' order by b.stage), sum(b.w_retry_ms), b.deadline_ms
    )
    when max(b.timeout_ms) > b.slo_p99_ms then format(
      'timeout_ms ≤ slo_p99_ms of the kind does not hold: %s > %s ms',
      string_agg(format('%s (%s)', b.timeout_ms, b.stage), ', ' order by b.stage)
        filter (where b.timeout_ms > b.slo_p99_ms),
      b.slo_p99_ms
    )
  end
  from (
    select
      p.stage, p.timeout_ms, k.slo_p99_ms,
      tidegate.w_retry_ms(p.attempts, p.timeout_ms, p.base_ms, p.factor, p.cap_ms, p.jitter_ms) as w_retry_ms,
      trim_scale(extract(epoch from k.deadline) * 1000) as deadline_ms
    from tidegate.kind as k
    join tidegate.policy as p on p.kind = k.name and (p.stage = 'tx' or k.flow = 'decrypt')
    where k.name = p_kind
  ) as b
  group by b.deadline_ms, b.slo_p99_ms;
$$;
