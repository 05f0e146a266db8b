-- record_minutes: Maintenance duty: records depth, drains, calls and errors of ETAs by the minute; keeps a day.
--
-- The last five whole minutes are counted again each time, so late reports are in them, and a fleet that was stopped
-- for less misses none.
create or replace function tidegate.record_minutes()
  returns void language plpgsql security definer as $$
declare
  v_now   constant timestamptz := tidegate.clock();
  v_until constant timestamptz := date_trunc('minute', v_now);
  v_from  constant timestamptz := v_until - interval '5 minutes';
begin
  insert into tidegate.queue_minute (queue, minute, depth)
  select q.name, v_until, tidegate_internal.queue_depth(q.name)
  from tidegate_internal.stored_queues() as q
  where not exists (select from tidegate.queue_minute as m where m.minute = v_until and m.queue = q.name)
  on conflict do nothing;

  update tidegate.queue_minute as m
  set drained = d.drained
  from (
    select d.queue, date_trunc('minute', d.at) as minute, sum(d.drained) as drained
    from tidegate.queue_drain as d
    where d.at >= v_from and d.at < v_until
    group by 1, 2
  ) as d
  where m.queue = d.queue and m.minute = d.minute and m.drained <> d.drained;

  insert into tidegate.call_minute as m
    (kind, stage, minute, calls, failures, timeouts, retries, p50_ms, p95_ms, p99_ms)
  select w.kind, w.stage, w.minute, w.calls, w.failures, w.timeouts, w.retries, l.p50_ms, l.p95_ms, l.p99_ms
  from (
    select
      c.kind, c.stage, date_trunc('minute', c.at) as minute, sum(c.calls) as calls, sum(c.failures) as failures,
      sum(c.timeouts) as timeouts, sum(c.retries) as retries
    from (table tidegate.call_second union all table tidegate.call_sample) as c
    where c.at >= v_from and c.at < v_until
    group by 1, 2, 3
  ) as w
  cross join lateral (
    select
      percentile_disc(0.5) within group (order by l.ms) as p50_ms,
      percentile_disc(0.95) within group (order by l.ms) as p95_ms,
      percentile_disc(0.99) within group (order by l.ms) as p99_ms
    from tidegate.call_second as s
    cross join unnest(s.latency_ms) as l(ms)
    where s.kind = w.kind and s.stage = w.stage and s.at >= w.minute and s.at < w.minute + interval '1 minute'
  ) as l
  on conflict (minute, kind, stage) do update
  set
    calls = excluded.calls, failures = excluded.failures, timeouts = excluded.timeouts, retries = excluded.retries,
    p50_ms = excluded.p50_ms, p95_ms = excluded.p95_ms, p99_ms = excluded.p99_ms
  where excluded.calls > m.calls;

  insert into tidegate.eta_minute
    (kind, minute, predicted, error_ms, error_abs_ms, p90_stated, p90_held, polls, answered, lateness_ms)
  select
    q.kind, v_until, q.predicted, q.error_seconds_sum * 1000, q.error_abs_seconds_sum * 1000,
    q.p90_stated, q.p90_held, coalesce(p.polls, 0), coalesce(p.answered, 0), coalesce(p.lateness_ms, 0)
  from tidegate.eta_quality as q
  left join tidegate.poll_count as p on p.kind = q.kind
  where not exists (select from tidegate.eta_minute as m where m.minute = v_until and m.kind = q.kind)
  on conflict do nothing;

  delete from tidegate.queue_minute as m where m.minute < v_now - interval '24 hours';
  delete from tidegate.call_minute as m where m.minute < v_now - interval '24 hours';
  delete from tidegate.transition_minute as m where m.minute < v_now - interval '24 hours';
  delete from tidegate.eta_minute as m where m.minute < v_now - interval '24 hours';
end;
$$;
select tidegate_internal.allow('record_minutes', '{api,worker,admin}');
