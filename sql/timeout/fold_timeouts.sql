-- fold_timeouts: Stores an estimate as the next version of a shared estimator, with the report of the process; returns
-- false when another process stored that version first.
--
-- `version` is that of the estimator that the estimate was made from, 0 when there was none. Where the row still has
-- it, the estimate is stored as the next version, and with it what this process has observed (`report`); reports
-- older than an hour, or two intervals if that is longer, go. False: another process has folded
-- meanwhile, or the policy is deleted or no longer adaptive; nothing is written, and `read_timeouts` has the current
-- state.
--
-- `estimate` has the members that `read_timeouts` gives (its version is ignored), `report` the columns of
-- `timeout_report` but for `reported`, which is counted here. Raises TG007 when a member is missing; constraints say
-- what the figures may be.
create or replace function tidegate.fold_timeouts(
  kind text, stage tidegate.stage, version bigint, estimate jsonb, report jsonb, worker text
)
  returns boolean language plpgsql security definer as $$
#variable_conflict use_column
declare
  v_now     constant timestamptz := tidegate.clock();
  v_missing text;
  v_policy  tidegate.policy;
  v_before  bigint;
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

  -- The guard: a fold that waited here for another one finds another version, or none.
  delete from tidegate.timeout_estimator as e
  where e.kind = fold_timeouts.kind and e.stage = fold_timeouts.stage and e.version = fold_timeouts.version;
  if not found and fold_timeouts.version is distinct from 0 then
    return false;
  end if;
  insert into tidegate.timeout_estimator
  select n.*
  from jsonb_populate_record(null::tidegate.timeout_estimator, fold_timeouts.estimate || jsonb_build_object(
    'kind', fold_timeouts.kind, 'stage', fold_timeouts.stage, 'version', fold_timeouts.version + 1,
    'began_at', timestamptz 'epoch' + (fold_timeouts.estimate ->> 'began_us')::bigint * interval '1 us',
    'updated_at', v_now
  )) as n
  on conflict do nothing;
  if not found then
    return false;
  end if;

  delete from tidegate.timeout_report as r
  where r.kind = fold_timeouts.kind and r.stage = fold_timeouts.stage and r.worker = fold_timeouts.worker
  returning r.reported into v_before;
  insert into tidegate.timeout_report
  select n.*
  from jsonb_populate_record(null::tidegate.timeout_report, fold_timeouts.report || jsonb_build_object(
    'kind', fold_timeouts.kind, 'stage', fold_timeouts.stage, 'worker', fold_timeouts.worker, 'at', v_now,
    'reported', coalesce(v_before, 0) + (fold_timeouts.report ->> 'responses')::bigint
  )) as n;
  delete from tidegate.timeout_report as r
  where r.kind = fold_timeouts.kind and r.stage = fold_timeouts.stage
    and r.at < v_now - greatest(interval '1 hour', tidegate.adaptive_interval_ms(v_policy) * interval '2 ms');
  return true;
end;
$$;
select tidegate_internal.allow('fold_timeouts', '{worker,admin}');
