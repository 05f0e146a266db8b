-- tidegate.settle_not_yet: queued → queued, for requests that are not ready; they are checked again later
--
-- `after` (one per lease, null: by the kind's policy) says when. The wait never outlives the readiness deadline;
-- after the policy's last attempt the request times out instead (queued → timed_out). Returns what became of each
-- request still held; a missing one was not this holder's any more.
create or replace function tidegate.settle_not_yet(leases tidegate.lease[], after interval[] default null)
  returns table (id uuid, req_status tidegate.request_status)
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_held  record;
  v_now   timestamptz := clock_timestamp();
  v_moved record;
begin
  select * into v_held from tidegate.lock_held(leases);
  if v_held.ids is null then
    return;
  end if;

  with judged as materialized (
    select
      r.id, h.msg_id,
      r.readiness_attempt >= p.attempts as ended,
      v_now + coalesce(
        greatest(settle_not_yet.after[h.place], interval '0'),
        tidegate.backoff(r.readiness_attempt, p.base_ms, p.factor, p.cap_ms, p.jitter_ms, 2 * random() - 1)
      ) as visible
    from unnest(v_held.ids, v_held.msg_ids, v_held.places) as h(id, msg_id, place)
    join tidegate.request as r on r.id = h.id
    join tidegate.policy as p on p.kind = r.kind and p.stage = 'readiness'
  ), moved as (
    update tidegate.request as r
    set
      req_status = case when j.ended then 'timed_out' else r.req_status end,
      transition_no = r.transition_no + j.ended::integer,
      cause = case when j.ended then 'readiness_timed_out' else r.cause end,
      queue = case when j.ended then null else r.queue end,
      msg_id = case when j.ended then null else r.msg_id end,
      worker = case when j.ended then r.worker end,
      error = case when j.ended
        then tidegate.error_json('readiness_timed_out', format('not ready after %s checks', r.readiness_attempt), true)
        else r.error
      end
    from judged as j
    where r.id = j.id and r.req_status = 'queued' and r.queue = v_held.queue and r.msg_id = j.msg_id
    returning r.id, r.req_status, j.msg_id, j.ended, least(j.visible, r.readiness_deadline_at) as visible
  )
  select
    array_agg(m.id) as ids,
    array_agg(m.req_status) as statuses,
    array_agg(m.msg_id) filter (where m.ended) as done,
    array_agg(m.msg_id) filter (where not m.ended) as kept,
    array_agg(case when m.visible <= v_now then '-infinity' else m.visible end) filter (where not m.ended) as visible
  into v_moved
  from moved as m;

  perform tidegate.delete_messages(v_held.queue, v_moved.done, true);
  if v_moved.kept is not null then
    perform tidegate.free_messages(v_held.queue, v_moved.kept, v_moved.visible);
  end if;
  return query select * from unnest(v_moved.ids, v_moved.statuses);
end;
$$;
