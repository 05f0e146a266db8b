-- settle_released: Ends the claim of requests whose check or send has not begun, without an attempt; returns those
-- released.
--
-- A queued request stays queued; one in flight goes back to processing, or ends as cancelled (failure) when its cancel
-- was requested. Its attempt is not counted; that of a cancelled one had no effect. A request missing
-- from the result was not this holder's any more.
create or replace function tidegate_internal.settle_released(leases tidegate.lease[])
  returns table (id uuid, req_status tidegate.request_status) language plpgsql
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
      req_status = h.to_status, transition_no = r.transition_no + (r.req_status <> 'queued')::integer,
      cause = case h.to_status when 'queued' then r.cause when 'processing' then 'released' else 'cancelled' end,
      worker = case r.req_status when 'queued' then null else r.worker end, lease = null,
      readiness_attempt = greatest(r.readiness_attempt - (r.req_status = 'queued')::integer, 0),
      tx_attempt = r.tx_attempt - (h.to_status = 'processing' and r.tx_attempt > 0)::integer,
      tx_unsent = r.tx_unsent + (h.to_status = 'failure')::integer,
      finished_at = case h.to_status when 'failure' then tidegate.clock() end,
      queue = case when h.to_status <> 'failure' then r.queue end,
      msg_id = case when h.to_status <> 'failure' then r.msg_id end,
      error = case h.to_status
        when 'failure' then tidegate_internal.final_error(
          tidegate_internal.error_json('cancelled', 'cancelled', false), r.error, r, r.tx_unsent + 1
        )
        else r.error
      end
    from (
      select
        l.id, l.msg_id, l.token, l.claimed,
        case
          when o.req_status = 'queued' then o.req_status
          when o.cancel_requested_at is null then 'processing'
          else 'failure'
        end as to_status
      from unnest(v_held.ids, v_held.msg_ids, v_held.tokens, v_held.claimed) as l(id, msg_id, token, claimed)
      cross join lateral (select * from tidegate.request as r where r.id = l.id offset 0) as o
    ) as h
    where r.id = any(array[h.id]) and r.req_status in ('queued', 'tx_in_flight')
    returning r.id, r.kind, r.req_status, h.msg_id, h.token, h.claimed
  )
  select
    array_agg(f.id) as ids, array_agg(f.req_status) as statuses,
    array_agg(f.msg_id) filter (where f.req_status <> 'failure') as msg_ids,
    array_agg(f.id) filter (where f.req_status <> 'failure') as waiting,
    array_agg(f.kind) as kinds, array_agg(f.token) as tokens, array_agg(f.claimed) as claimed,
    array_agg(f.claimed) filter (where f.req_status = 'failure') as drained,
    count(*) filter (where f.claimed is null and f.req_status <> 'failure') as lost
  into v_freed
  from freed as f;
  if v_freed.ids is null then
    return;
  end if;

  perform tidegate_internal.put_back(v_held.queue, v_freed.msg_ids, v_freed.waiting, p_lost => v_freed.lost);
  perform tidegate_internal.end_leases(v_held.queue, v_freed.ids, v_freed.tokens, v_freed.drained);
  if exists (select from tidegate.breaker as b where b.state = 'half_open' and b.kind = any(v_freed.kinds)) then
    perform tidegate_internal.breaker_record_calls(
      (select q.stage from tidegate.queue as q where q.name = v_held.queue), v_freed.kinds,
      array_fill('void'::text, array[cardinality(v_freed.ids)]), null, v_freed.claimed, tidegate.clock()
    );
  end if;
  return query select * from unnest(v_freed.ids, v_freed.statuses);
end;
$$;
select tidegate_internal.plan_along_indexes('settle_released');
