-- observed_eta: The Retry-After of a request from the observed times of its queues and kind.
--
-- `seconds` is the advice and `spread_to` the latest second that jitter may make of it; `p50_ms` and `p90_ms` are the
-- times in which it is answered with that probability. Both null without observations: then the nominal times are used.
-- All null for a queue that is stopped.
--
-- A request that waits takes its wait, W, and then one of the answer times seen lately. W is counted at the configured
-- limits, unless the queue was observed to move slower while it had a backlog. A request that is sent takes one of
-- those answer times that are longer than it has taken already. While nothing moves, in a queue or among the answers,
-- for time s, the rest of the standstill is estimated by a Pareto distribution (exponent 1.5), which has no scale of
-- its own; the same holds for an answer that takes longer than nearly all before it.
--
-- A poll too early weighs as much as an answer 2.75 s late; down to 1.7 s for requests that wait long, whose ETA
-- is too uncertain for a single poll.
create or replace function tidegate_internal.observed_eta(
  p_kind tidegate.kind, p_place text, p_position bigint, p_queue text, p_visible_in interval, p_since_sent interval,
  p_age interval, p_terms tidegate.eta_terms, p_now timestamptz,
  out seconds integer, out spread_to numeric, out p50_ms bigint, out p90_ms bigint
)
  language plpgsql stable as $$
declare
  v_fresh        constant interval := '10 seconds';
  v_poll_ms      constant float8 := 2750;
  v_long_poll_ms constant float8 := 1700;
  v_shape        constant float8 := 1.5;
  v_tail         constant float8 := 0.2;
  v_waits        constant boolean := p_place in ('readiness_queue', 'checking', 'tx_queue');
  v_checks       constant boolean := p_place in ('readiness_queue', 'checking');
  v_readiness    tidegate.queue_pace;
  v_tx           tidegate.queue_pace;
  v_pace         tidegate.kind_pace;
  v_check_ms     float8 := p_kind.readiness_ms;
  v_wait_ms      float8 := 0;
  v_still_ms     float8;
  v_sent_ms      float8 := coalesce(extract(epoch from p_since_sent) * 1000, 0);
  v_drain        numeric := p_terms.drain_tps;
  v_remaining    float8[];
  v_rest_ms      float8;
  v_scale_ms     float8;
  v_cost_ms      float8;
begin
  if v_waits and (v_drain = 0 or (p_place = 'readiness_queue' and p_terms.concurrency = 0)) then
    return;
  end if;
  select * into v_pace from tidegate.kind_pace as p where p.kind = p_kind.name and p.observed_at > p_now - v_fresh;

  if v_pace.answer_ms is null and not v_waits then
    -- The rest of the nominal time; once that is over, as long again as it has taken.
    v_rest_ms := p_kind.processing_ms * (1 + p_terms.safety_margin) - v_sent_ms;
    seconds := least(p_terms.max_seconds, ceil(case when v_rest_ms > 0 then v_rest_ms else v_sent_ms end / 1000));
    spread_to := seconds;
  elsif v_pace.answer_ms is null then
    -- Too few answers were observed: the nominal times, with their margin, but none on the wait.
    v_wait_ms := case p_place
      when 'readiness_queue' then coalesce(p_position * 1000.0 / p_terms.concurrency, 0)
      when 'checking' then p_kind.readiness_ms
      else 0
    end + coalesce(case when v_checks then p_terms.tx_queue_size else p_position end * 1000 / v_drain, 0);
    v_rest_ms := (p_kind.processing_ms + p_kind.tx_confirmation_ms) * (1 + p_terms.safety_margin);
    seconds := least(p_terms.max_seconds, ceil((v_wait_ms / (1 + p_terms.jitter) + v_rest_ms) / 1000));
    spread_to := least(p_terms.max_seconds, ceil((v_wait_ms + v_rest_ms) / 1000));
  else
    if v_waits then
      select * into v_tx from tidegate.queue_pace as p
      where p.queue = case when v_checks then p_kind.tx_queue else p_queue end and p.observed_at > p_now - v_fresh;
      if v_tx.per_second < coalesce(0.95 * v_drain, v_tx.per_second + 1) then
        v_drain := v_tx.per_second;
      end if;
      v_wait_ms := coalesce(case when v_checks then p_terms.tx_queue_size else p_position end * 1000 / v_drain, 0);
      -- Slots that were handed out and are still to come stand before all that wait.
      if p_place = 'tx_queue' and p_terms.drain_tps is not null then
        v_wait_ms := v_wait_ms + coalesce((
          select greatest(0, (s.tat_ns - s.tolerance_ns) / 1000000.0 - extract(epoch from p_now) * 1000)
          from tidegate.queue as q
          cross join tidegate_internal.pacing_slots(
            pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'pacing')), q.per_seconds, q.burst, p_now
          ) as s
          where q.name = p_queue
        ), 0);
      end if;
    end if;
    if v_checks then
      select * into v_readiness from tidegate.queue_pace as p
      where p.queue = p_queue and p.observed_at > p_now - v_fresh;
      v_check_ms := coalesce(v_readiness.held_ms, v_check_ms);
      v_wait_ms := v_wait_ms + v_check_ms + case when p_place = 'readiness_queue'
        then coalesce(p_position * 1000 / v_readiness.per_second, p_position * v_check_ms / p_terms.concurrency, 0)
        else 0
      end;
    end if;
    v_wait_ms := greatest(v_wait_ms, extract(epoch from p_visible_in) * 1000);

    select extract(epoch from p_now - min(still.since)) * 1000 into v_still_ms
    from (values (v_tx.still_since), (v_readiness.still_since), (v_pace.still_since)) as still(since);
    -- What was sent after the standstill began has stood still no longer than that.
    if not v_waits and v_still_ms is not null then
      v_still_ms := least(v_still_ms, v_sent_ms);
    end if;

    select array_agg(a.ms - v_sent_ms order by a.ms) into v_remaining
    from unnest(v_pace.answer_ms) as a(ms)
    where a.ms > v_sent_ms;
    v_cost_ms := v_poll_ms - (v_poll_ms - v_long_poll_ms)
      * least(1, greatest(0, (v_wait_ms + extract(epoch from p_age) * 1000 - 6000) / 10000));

    if v_still_ms is null and cardinality(v_remaining) >= 2 then
      p50_ms := v_wait_ms + tidegate.quantile(v_remaining, 0.5);
      p90_ms := v_wait_ms + tidegate.quantile(v_remaining, 0.9);
      spread_to := tidegate.cheapest_poll(
        array(select v_wait_ms + r.ms from unnest(v_remaining) as r(ms)), v_cost_ms, p_terms.jitter::float8,
        p_terms.min_seconds, p_terms.max_seconds
      );
    else
      -- In a standstill, or longer in flight than nearly all before it: the chance that it ends in the next moment is
      -- `v_shape / v_scale_ms`, and polls are cheapest at the distance where the cost of one equals half the gap.
      v_rest_ms := v_wait_ms + coalesce(tidegate.quantile(v_remaining, 0.5), 0);
      v_scale_ms := coalesce(v_still_ms, v_tail * v_sent_ms);
      p50_ms := v_rest_ms + v_scale_ms * (power(0.5, -1 / v_shape) - 1);
      p90_ms := v_rest_ms + v_scale_ms * (power(0.1, -1 / v_shape) - 1);
      spread_to := least(p_terms.max_seconds, ceil((v_rest_ms + sqrt(2 * v_cost_ms * v_scale_ms / v_shape)) / 1000));
    end if;
    seconds := ceil(spread_to / (1 + p_terms.jitter));
  end if;

  seconds := least(p_terms.max_seconds, greatest(p_terms.min_seconds, seconds, ceil(extract(epoch from p_visible_in))));
  spread_to := least(p_terms.max_seconds, greatest(seconds, spread_to));
end;
$$;
