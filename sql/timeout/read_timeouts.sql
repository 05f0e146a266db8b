-- read_timeouts: The adaptive timeouts of a stage: policy, shared estimator and other processes' load, one row per
-- known kind of the list.
--
-- The policy as it is now: `adaptive` is whether the estimator is used at all; `slo` is null without a target,
-- `interval_calls` where the target decides how many calls end an interval.
-- `estimate` is the estimator, null before the first fold: then its version counts as 0. It comes without
-- its key; `began_us` is when its open interval began, in microseconds since 1970, by the clock of `now_us`.
-- `sequence` numbers the last report of this worker; `others_rps` is what the others report, calls begun per second,
-- without those that have not reported for two intervals. Raises nothing for unknown kinds: they have no row.
create or replace function tidegate.read_timeouts(kinds text[], stage tidegate.stage, worker text)
  returns table (
    kind text, adaptive boolean, timeout_ms integer, min_ms integer, slo float8, interval_ms integer, k_margin integer,
    alarm_samples integer, best_case text, interval_calls integer, estimate jsonb, sequence bigint, others_rps float8,
    now_us bigint
  )
  language plpgsql security definer as $$
#variable_conflict use_column
declare
  v_now constant timestamptz := tidegate.clock();
begin
  return query
    select
      p.kind, p.timeout_mode = 'adaptive', p.timeout_ms, p.adaptive_min_ms, p.adaptive_slo::float8, i.interval_ms,
      p.adaptive_k_margin, p.adaptive_alarm_samples, p.adaptive_best_case, p.adaptive_interval_calls,
      to_jsonb(e) - '{kind,stage,began_at,updated_at}'::text[]
        || jsonb_build_object('began_us', (extract(epoch from e.began_at) * 1000000)::bigint),
      (
        select r.sequence
        from tidegate.timeout_report as r
        where r.kind = p.kind and r.stage = p.stage and r.worker = read_timeouts.worker
      ),
      (
        select coalesce(sum(r.load_rps), 0)
        from tidegate.timeout_report as r
        where r.kind = p.kind and r.stage = p.stage and r.worker <> read_timeouts.worker
          -- A clock that was set back must not make a report last for ever.
          and r.at between v_now - i.interval_ms * interval '2 ms' and v_now + interval '1 second'
      ),
      (extract(epoch from v_now) * 1000000)::bigint
    from tidegate.policy as p
    cross join lateral (select tidegate.adaptive_interval_ms(p) as interval_ms) as i
    left join tidegate.timeout_estimator as e on e.kind = p.kind and e.stage = p.stage
    where p.kind = any(read_timeouts.kinds) and p.stage = read_timeouts.stage
    order by p.kind;
end;
$$;
select tidegate_internal.allow('read_timeouts', '{worker,admin}');
