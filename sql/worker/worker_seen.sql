-- worker_seen: Records that a worker is alive (and stopping, when `stopping`); each worker calls it every 10 s or so.
--
-- `kinds`: those that it has a stage for; null: all.
create or replace function tidegate.worker_seen(
  name text, stages text[], queues text[], stopping boolean default false, kinds text[] default null
)
  returns void language sql security definer as $$
  insert into tidegate.worker as w (name, stages, queues, stopped_at, kinds)
  values (name, stages, queues, case when stopping then tidegate.clock() end, kinds)
  on conflict on constraint worker_pkey do update
  set stages = excluded.stages, queues = excluded.queues, last_seen_at = tidegate.clock(),
    stopped_at = excluded.stopped_at, kinds = excluded.kinds;
$$;
select tidegate_internal.allow('worker_seen', '{worker,admin}');
