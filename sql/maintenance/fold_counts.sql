-- fold_counts: One batch of a maintenance duty: folds the append-only count deltas into one row per kind and status.
--
-- Also folds drains by the second, and deletes those older than ten minutes, the longest window in use. Returns how
-- many deltas it folded.
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

  with taken as (
    delete from tidegate.request_count_delta as d
    where d.ctid = any(array(select f.ctid from tidegate.request_count_delta as f limit 10000))
    returning d.kind, d.req_status, d.delta
  ), folded as (
    insert into tidegate.request_count as c (kind, req_status, requests)
    select t.kind, t.req_status, sum(t.delta) from taken as t group by t.kind, t.req_status
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
  return v_folded;
end;
$$;
select tidegate_internal.allow('fold_counts', '{api,worker,admin}');
