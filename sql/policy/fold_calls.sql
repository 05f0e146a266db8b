-- fold_calls: One batch of a maintenance duty: folds reported calls by the second and into totals.
--
-- Seconds are kept for ten minutes, the longest window in use. Returns how many samples it folded.
create or replace function tidegate.fold_calls()
  returns bigint language plpgsql security definer
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_kept   constant integer := 64;
  v_folded bigint;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('tidegate.fold_calls', 0)) then
    return 0;
  end if;

  with taken as materialized (
    delete from tidegate.call_sample as c
    where c.ctid = any(array(select s.ctid from tidegate.call_sample as s limit 10000))
    returning c.*
  ), summed as (
    select
      t.kind, t.stage, date_trunc('second', t.at) as at, sum(t.requests) as requests, sum(t.calls) as calls,
      sum(t.failures) as failures, sum(t.timeouts) as timeouts, sum(t.retries) as retries, sum(t.slow) as slow,
      sum(t.hedges) as hedges
    from taken as t
    group by 1, 2, 3
  ), folded as (
    insert into tidegate.call_second as s
    select u.*, array(
      select l.ms
      from taken as t, unnest(t.latency_ms) as l(ms)
      where t.kind = u.kind and t.stage = u.stage and date_trunc('second', t.at) = u.at
      limit v_kept
    )
    from summed as u
    on conflict (kind, stage, at) do update
    set
      requests = s.requests + excluded.requests, calls = s.calls + excluded.calls,
      failures = s.failures + excluded.failures, timeouts = s.timeouts + excluded.timeouts,
      retries = s.retries + excluded.retries, slow = s.slow + excluded.slow, hedges = s.hedges + excluded.hedges,
      latency_ms = (s.latency_ms || excluded.latency_ms)[1:v_kept]
  ), added as (
    insert into tidegate.call_total as c (kind, stage, requests, calls, failures, timeouts, retries, hedges)
    select
      u.kind, u.stage, sum(u.requests), sum(u.calls), sum(u.failures), sum(u.timeouts), sum(u.retries), sum(u.hedges)
    from summed as u
    group by u.kind, u.stage
    on conflict (kind, stage) do update
    set
      requests = c.requests + excluded.requests, calls = c.calls + excluded.calls,
      failures = c.failures + excluded.failures, timeouts = c.timeouts + excluded.timeouts,
      retries = c.retries + excluded.retries, hedges = c.hedges + excluded.hedges
  )
  select count(*) into v_folded from taken;

  delete from tidegate.call_second as s where s.at < tidegate.clock() - interval '10 minutes';
  return v_folded;
end;
$$;
select tidegate_internal.allow('fold_calls', '{api,worker,admin}');
