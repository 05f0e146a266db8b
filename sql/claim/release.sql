-- release: Ends the claim of requests whose check or send has not begun, without an attempt; returns those released.
--
-- A queued request stays queued; one in flight goes back to processing. Its attempt is not counted. A request missing
-- from the result was not this holder's any more.
create or replace function tidegate.release(leases tidegate.lease[])
  returns table (id uuid, req_status tidegate.request_status) language plpgsql security definer
  set tidegate.announced = ''
as $$
declare
  v_held  record;
  v_freed record;
begin
  select * into v_held from tidegate_internal.lock_held(leases);
  if v_held.ids is null then
    return;
  end if;

  with freed as (
    update tidegate.request as r
    set
      req_status = case r.req_status when 'queued' then r.req_status else 'processing' end,
      transition_no = r.transition_no + (r.req_status <> 'queued')::integer,
      cause = case r.req_status when 'queued' then r.cause else 'released' end,
      worker = case r.req_status when 'queued' then null else r.worker end, lease = null,
      readiness_attempt = greatest(r.readiness_attempt - (r.req_status = 'queued')::integer, 0),
      tx_attempt = greatest(r.tx_attempt - (r.req_status <> 'queued')::integer, 0)
    from unnest(v_held.ids, v_held.tokens, v_held.claimed) as h(id, token, claimed)
    where r.id = any(array[h.id]) and r.req_status in ('queued', 'tx_in_flight')
    returning r.id, r.kind, r.req_status, r.msg_id, h.token, h.claimed
  )
  select
    array_agg(f.id) as ids, array_agg(f.req_status) as statuses, array_agg(f.msg_id) as msg_ids,
    array_agg(f.kind) as kinds, array_agg(f.token) as tokens, array_agg(f.claimed) as claimed,
    count(*) filter (where f.claimed is null) as lost
  into v_freed
  from freed as f;
  if v_freed.ids is null then
    return;
  end if;

  perform tidegate_internal.put_back(v_held.queue, v_freed.msg_ids, v_freed.ids, p_lost => v_freed.lost);
  perform tidegate_internal.end_leases(v_held.queue, v_freed.ids, v_freed.tokens, null);
  if exists (select from tidegate.breaker as b where b.state = 'half_open' and b.kind = any(v_freed.kinds)) then
    perform tidegate_internal.breaker_record_calls(
      (select q.stage from tidegate.queue as q where q.name = v_held.queue), v_freed.kinds,
      array_fill('void'::text, array[cardinality(v_freed.ids)]), null, v_freed.claimed, tidegate.clock()
    );
  end if;
  return query select * from unnest(v_freed.ids, v_freed.statuses);
end;
$$;
select tidegate_internal.allow('release', '{worker,admin}');
select tidegate_internal.plan_along_indexes('release');
