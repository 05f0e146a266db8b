-- submit_etas: The Retry-After and ETAs of requests that are being submitted, in their order.
--
-- `p_waiting` messages wait before the first of them; in a fair queue `p_positions` before each. Observed ETAs cost as
-- much as a poll each, so of many only some are computed; those between are later by the time that they wait longer.
create or replace function tidegate_internal.submit_etas(
  p_kind tidegate.kind, p_queue text, p_waiting bigint, p_positions bigint[], p_ids uuid[], p_visible_in interval,
  p_terms tidegate.eta_terms, p_now timestamptz
)
  returns tidegate.retry_after[] language plpgsql stable as $$
declare
  v_count   constant integer := cardinality(p_ids);
  v_step    constant integer := ceil(v_count / 32.0);  -- at most 32 of them are computed
  v_place   constant text := case when p_kind.flow = 'decrypt' then 'readiness_queue' else 'tx_queue' end;
  v_each_ms constant numeric := case v_place
    when 'tx_queue' then 1000 / nullif(p_terms.drain_tps, 0)
    else p_kind.readiness_ms / nullif(p_terms.concurrency, 0)::numeric
  end;
  v_line    record;
  v_least   integer;
  v_etas    tidegate.retry_after[];
begin
  if p_kind.eta = 'observed' then
    select array_agg(tidegate_internal.eta_with_jitter(
      p_ids[made.first + later.place + 1], least(p_terms.max_seconds, made.seconds + floor(later.ms / 1000))::integer,
      least(p_terms.max_seconds, made.spread_to + floor(later.ms / 1000)),
      made.p50_ms + later.ms, made.p90_ms + later.ms
    ) order by made.first, later.place)
    into v_etas
    from (
      select first, e.*
      from generate_series(0, v_count - 1, v_step) as first
      cross join lateral tidegate_internal.observed_eta(
        p_kind, v_place, coalesce(p_positions[first + 1], p_waiting + first), p_queue, p_visible_in, null, interval '0',
        p_terms, p_now
      ) as e
      where e.seconds is not null
    ) as made
    cross join lateral (
      select place, round(coalesce(v_each_ms, 0) * place)::bigint as ms
      from generate_series(0, least(v_step, v_count - made.first) - 1) as place
    ) as later;
  end if;
  if v_etas is null then
    select * into v_line
    from tidegate.eta_line(
      v_place, p_terms.tx_queue_size, p_terms.drain_tps, p_terms.concurrency, p_kind.readiness_ms, p_kind.processing_ms,
      p_kind.tx_confirmation_ms, p_terms.safety_margin
    );
    v_least := greatest(
      p_terms.min_seconds,
      case when p_visible_in is not null then least(p_terms.max_seconds, ceil(extract(epoch from p_visible_in))) end
    );
    v_etas := array(
      select row(
        tidegate.bounded_seconds(v_line.first + v_line.each * coalesce(p_positions[place + 1], p_waiting + place),
          v_line.below, v_least, p_terms.max_seconds),
        null, null
      )::tidegate.retry_after
      from generate_series(0, v_count - 1) as place
    );
  end if;
  return v_etas;
end;
$$;
