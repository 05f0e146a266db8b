-- tidegate.release: gives back requests whose check or send has not begun; they are claimable again at once
--
-- A queued request stays queued; one in flight goes back to processing. The attempt is given back too. Returns the
-- requests given back; a missing one was not this holder's any more.
create or replace function tidegate.release(leases tidegate.lease[])
  returns table (id uuid, req_status tidegate.request_status)
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_held     record;
  v_ids      uuid[];
  v_statuses tidegate.request_status[];
  v_freed    bigint[];
begin
  select * into v_held from tidegate.lock_held(leases);
  if v_held.ids is null then
    return;
  end if;

  with moved as (
    update tidegate.request as r
    set
      req_status = 'processing',
      transition_no = r.transition_no + 1,
      cause = 'released',
      tx_attempt = greatest(r.tx_attempt - 1, 0)
    from unnest(v_held.ids, v_held.msg_ids) as h(id, msg_id)
    where r.id = h.id and r.req_status = 'tx_in_flight' and r.queue = v_held.queue and r.msg_id = h.msg_id
    returning r.id, r.req_status, h.msg_id
  ), unchecked as (
    update tidegate.request as r
    set readiness_attempt = greatest(r.readiness_attempt - 1, 0), worker = null
    from unnest(v_held.ids, v_held.msg_ids) as h(id, msg_id)
    where r.id = h.id and r.req_status = 'queued' and r.queue = v_held.queue and r.msg_id = h.msg_id
    returning r.id, r.req_status, h.msg_id
  ), freed as (
    select * from moved union all select * from unchecked
  )
  select array_agg(f.id), array_agg(f.req_status), array_agg(f.msg_id) into v_ids, v_statuses, v_freed from freed as f;

  if v_freed is not null then
    perform tidegate.free_messages(v_held.queue, v_freed, array_fill('-infinity'::timestamptz, array[cardinality(v_freed)]));
  end if;
  return query select * from unnest(v_ids, v_statuses);
end;
$$;
