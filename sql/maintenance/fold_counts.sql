-- fold_counts: One batch of a maintenance duty: folds the append-only count deltas into one row per kind and status.
--
-- Also counts transitions by the minute, and submissions with their replays; folds drains by the second, and deletes
-- what is older than the longest window in use, ten minutes. Returns how many deltas it folded.
create or replace function tidegate.fold_counts()
  returns bigint language plpgsql security definer
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_folded bigint;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('tidegate.fold_counts', 0)) then
    return 0;
  end if;

  -- Makes the counters that are missing or cannot be read. One in which an open transaction has tried to count waits
  -- for a later call.
  begin
    perform tidegate_internal.make_replays_counter(k.name)
    from tidegate.kind as k
    where tidegate_internal.replays_counted(k.name) is null;
  exception when lock_not_available then
  end;

  with taken as (
    delete from tidegate.request_count_delta as d
    where d.ctid = any(array(select f.ctid from tidegate.request_count_delta as f limit 10000))
    returning d.kind, d.from_status, d.req_status, d.delta, d.submitted
  ), entered as (
    insert into tidegate.transition_minute as m (kind, req_status, minute, transitions)
    select t.kind, t.req_status, date_trunc('minute', tidegate.clock()), sum(t.delta)
    from taken as t
    where t.delta > 0
    group by t.kind, t.req_status
    on conflict (kind, req_status, minute) do update set transitions = m.transitions + excluded.transitions
  ), sampled as (
    insert into tidegate.submission_sample (kind, at, submitted, replayed, counter)
    -- Later than the last one, even if the clock was set back: that one has the counter's value.
    select
      r.kind, greatest(tidegate.clock(), last.at + interval '1 microsecond'), coalesce(t.submitted, 0) + n.replayed,
      n.replayed, r.replays
    from tidegate.replay_counts() as r
    left join (select f.kind, sum(f.submitted) as submitted from taken as f group by f.kind) as t on t.kind = r.kind
    left join lateral (
      select s.at, s.counter from tidegate.submission_sample as s where s.kind = r.kind order by s.at desc limit 1
    ) as last on true
    -- A counter that is lower than before has begun at 0 again.
    cross join lateral (
      select r.replays - case when last.counter <= r.replays then last.counter else 0 end as replayed
    ) as n
    where t.submitted > 0 or r.replays is distinct from coalesce(last.counter, 0)
  ), folded as (
    insert into tidegate.request_count as c (kind, req_status, requests)
    select c.kind, c.req_status, sum(c.delta)
    from (
      select t.kind, t.req_status, t.delta from taken as t
      union all
      select t.kind, t.from_status, -t.delta from taken as t where t.from_status is not null
    ) as c
    group by c.kind, c.req_status
    on conflict (kind, req_status) do update set requests = c.requests + excluded.requests
  )
  select count(*) into v_folded from taken;

  -- Drains older than ten seconds are only read by the second.
  with taken as (
    delete from tidegate.queue_drain as d
    where d.ctid = any(array(
      select f.ctid
      from tidegate.queue_drain as f
      where f.at < tidegate.clock() - interval '10 seconds' and f.at <> date_trunc('second', f.at)
      limit 10000
    ))
    returning d.queue, d.at, d.drained, d.held_ms
  )
  insert into tidegate.queue_drain (queue, at, drained, held_ms)
  select t.queue, date_trunc('second', t.at), sum(t.drained), sum(t.held_ms) from taken as t group by 1, 2;
  delete from tidegate.queue_drain as d where d.at < tidegate.clock() - interval '10 minutes';
  -- The last row of a kind has the value from which its counter goes on.
  delete from tidegate.submission_sample as s
  where s.at < tidegate.clock() - interval '10 minutes'
    and exists (select from tidegate.submission_sample as n where n.kind = s.kind and n.at > s.at);
  return v_folded;
end;
$$;
select tidegate_internal.allow('fold_counts', '{api,worker,admin}');
