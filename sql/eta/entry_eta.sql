-- entry_eta: The Retry-After and ETAs of a request that enters the tx queue of a kind with observed ETAs.
--
-- `p_position` messages are ahead of it. `submit` calls it only while its kind and queue are not paused and the queue's
-- rate limit is not 0, so there is an answer (see `wanted_terms`).
create or replace function tidegate_internal.entry_eta(p_kind text, p_position bigint, p_id uuid, p_now timestamptz)
  returns tidegate.retry_after language plpgsql stable as $$
begin
  return (
    select tidegate_internal.eta_with_jitter(p_id, e.seconds, e.spread_to, e.p50_ms, e.p90_ms)
    from tidegate.kind as k
    join tidegate.queue as q on q.name = k.tx_queue
    cross join tidegate.setting as s
    cross join lateral tidegate_internal.observed_eta(
      k, 'tx_queue', p_position, k.tx_queue, null, null, interval '0',
      row(null, q.per_seconds, null, s.safety_margin, s.min_seconds, s.max_seconds, s.jitter)::tidegate.eta_terms, p_now
    ) as e
    where k.name = p_kind
  );
end;
$$;
