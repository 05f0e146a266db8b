-- worker_seen: Records that a worker is alive (and stopping, when `stopping`); each worker calls it before its first
-- claim and then every 10 s or so, which also quarantines a database that has turned out to be a copy (`notice_copy`).
--
-- `kinds`: those that it has a stage for; null: all.
create or replace function tidegate.worker_seen(
  name text, stages text[], queues text[], stopping boolean default false, kinds text[] default null
)
  returns void language plpgsql security definer as $$
begin
  insert into tidegate.worker as w (name, stages, queues, stopped_at, kinds)
  values (
    worker_seen.name, worker_seen.stages, worker_seen.queues,
    case when worker_seen.stopping then tidegate.clock() end, worker_seen.kinds
  )
  on conflict on constraint worker_pkey do update
  set stages = excluded.stages, queues = excluded.queues, last_seen_at = tidegate.clock(),
    stopped_at = excluded.stopped_at, kinds = excluded.kinds;
  perform tidegate.notice_copy();
end;
$$;
select tidegate_internal.allow('worker_seen', '{worker,admin}');
