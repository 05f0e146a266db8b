-- fold_timeouts: Stores an estimate as the next version of a shared estimator, with the report of the process; returns
-- false when another process stored that version first.
--
-- `version` is that of the estimator that the estimate was made from, 0 when there was none. Where the row still has
-- it, the estimate is stored as the next version, and with it what this process has seen of it (`report`); reports
-- older than an hour, or two intervals if that is longer, go. False: another process has folded
-- meanwhile, or the policy is deleted or no longer adaptive; nothing is written, and `read_timeouts` has the current
-- state.
--
-- `estimate` has the members that `read_timeouts` gives (its version is ignored), `report` the columns of
-- `timeout_report` but for `reported`, which is counted here. Raises TG007 when a member is missing; constraints say
-- what the figures may be.
create or replace function tidegate.fold_timeouts(
  kind     text,
  stage    tidegate.stage,
  version  bigint,
  estimate jsonb,
  report   jsonb,
  worker   text
)
  returns boolean language plpgsql security definer
  set jit = off
as $$
#variable_conflict use_column
declare
  v_now     constant timestamptz := tidegate.clock();
  v_missing text;
  v_policy  tidegate.policy;
  v_new     tidegate.timeout_estimator;
  v_seen    tidegate.timeout_report;
begin
  -- A misspelt member would silently be null.
  select string_agg(m.place || ' has no ' || m.name, ', ') into v_missing
  from (
    select 'estimate' as place, a.attname as name, fold_timeouts.estimate as given
    from pg_attribute as a
    where a.attrelid = 'tidegate.timeout_estimator'::regclass and a.attnum > 0 and not a.attisdropped
      and a.attname not in ('kind', 'stage', 'version', 'began_at', 'updated_at')
    union all
    select 'estimate', 'began_us', fold_timeouts.estimate
    union all
    select 'report', a.attname, fold_timeouts.report
    from pg_attribute as a
    where a.attrelid = 'tidegate.timeout_report'::regclass and a.attnum > 0 and not a.attisdropped
      and a.attname not in ('kind', 'stage', 'worker', 'at', 'reported')
  ) as m
  where jsonb_typeof(m.given) is distinct from 'object' or not m.given ? m.name;
  if v_missing is not null then
    raise exception using errcode = 'TG007', message = v_missing;
  end if;

  -- Locked before the estimator, in the order in which the deletion of a kind locks them.
  select * into v_policy
  from tidegate.policy as p
  where p.kind = fold_timeouts.kind and p.stage = fold_timeouts.stage and p.timeout_mode = 'adaptive'
  for key share;
  if not found then
    return false;
  end if;

  v_new := jsonb_populate_record(null::tidegate.timeout_estimator, fold_timeouts.estimate);
  v_new.kind := fold_timeouts.kind;
  v_new.stage := fold_timeouts.stage;
  v_new.version := fold_timeouts.version + 1;
  v_new.began_at := 'epoch'::timestamptz + (fold_timeouts.estimate ->> 'began_us')::bigint * interval '1 us';
  v_new.updated_at := v_now;
  if fold_timeouts.version = 0 then
    insert into tidegate.timeout_estimator select v_new.* on conflict do nothing;
  else
    update tidegate.timeout_estimator as e
    set (
      version, state, srtt_ns, rttvar_ns, srto_ns, k_margin, timeout_ns, failure_rate, load_rps, min_ns, min_before_ns,
      usual_ns, usual_before_ns, min_age, high_load_intervals, high_load_rps, interval_no, began_at, requests,
      responses,
      failures, late, sum_ns, updated_at
    ) = row(
      v_new.version, v_new.state, v_new.srtt_ns, v_new.rttvar_ns, v_new.srto_ns, v_new.k_margin, v_new.timeout_ns,
      v_new.failure_rate, v_new.load_rps, v_new.min_ns, v_new.min_before_ns, v_new.usual_ns, v_new.usual_before_ns,
      v_new.min_age, v_new.high_load_intervals, v_new.high_load_rps, v_new.interval_no, v_new.began_at, v_new.requests,
      v_new.responses, v_new.failures, v_new.late, v_new.sum_ns, v_new.updated_at
    )
    -- The guard: a fold that waited here for another one finds another version.
    where e.kind = fold_timeouts.kind and e.stage = fold_timeouts.stage and e.version = fold_timeouts.version;
  end if;
  if not found then
    return false;
  end if;

  v_seen := jsonb_populate_record(null::tidegate.timeout_report, fold_timeouts.report);
  v_seen.kind := fold_timeouts.kind;
  v_seen.stage := fold_timeouts.stage;
  v_seen.worker := fold_timeouts.worker;
  v_seen.at := v_now;
  v_seen.reported := v_seen.responses;
  insert into tidegate.timeout_report as r select v_seen.*
  on conflict (kind, stage, worker) do update
  set
    sequence = excluded.sequence, at = excluded.at, requests = excluded.requests, responses = excluded.responses,
    failures = excluded.failures, reported = r.reported + excluded.responses, min_ns = excluded.min_ns,
    mean_ns = excluded.mean_ns, deviation_ns = excluded.deviation_ns, load_rps = excluded.load_rps,
    in_flight = excluded.in_flight;
  delete from tidegate.timeout_report as r
  where r.kind = fold_timeouts.kind and r.stage = fold_timeouts.stage
    and r.at < v_now - greatest(interval '1 hour', tidegate.adaptive_interval_ms(v_policy) * interval '2 ms');
  return true;
end;
$$;
select tidegate_internal.allow('fold_timeouts', '{worker,admin}');
