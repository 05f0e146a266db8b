-- settle_late: What the outcomes of sends tell about requests that others have ended under these leases: an answer,
-- that the send had no effect, or a reference.
--
-- Each lease tells it once. An answer establishes that the request was executed, and a response is kept as a late one.
-- A send that had no effect counts as such; if none is left that may have been executed, the request was not. A receipt
-- without a response proves nothing, but its reference is kept, if the request has none and it is free: a response may
-- come under it. One of each array for each lease; null arrays tell nothing.
create or replace function tidegate_internal.settle_late(
  p_leases tidegate.lease[], p_unsent boolean[], p_refs text[] default null, p_responses jsonb[] default null
)
  returns void language plpgsql as $$
declare
  v_late record;
begin
  for v_late in
    select l.id, l.token, p_unsent[l.place] as unsent, p_refs[l.place] as reference, p_responses[l.place] as response
    from unnest(p_leases) with ordinality as l(queue, token, id, place)
    join tidegate.request as r on r.id = any(array[l.id]) and r.ended_lease = l.token
    order by l.id
  loop
    -- The row is not waited for, because this settle has locked others: then the request stays unresolved.
    perform from tidegate.request as r where r.id = v_late.id and r.ended_lease = v_late.token for update skip locked;
    continue when not found;
    update tidegate.request as r
    set
      previous_status = r.req_status, ended_lease = null,
      tx_unsent = r.tx_unsent + coalesce(v_late.unsent, false)::integer
    where r.id = v_late.id;
    if exists (select from tidegate.request as r where r.id = v_late.id and r.tx_unsent = r.tx_attempt) then
      perform tidegate_internal.resolve_requests(array[v_late.id], 'no', 'settle');
    end if;
    perform tidegate_internal.record_receipt(v_late.id, v_late.reference, v_late.response, 'response');
  end loop;
end;
$$;
select tidegate_internal.plan_along_indexes('settle_late');
