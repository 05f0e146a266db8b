-- settle_ended: From one status to failure, for requests that their stage ended, with the error given.
--
-- The inner form of `settle_failed` (queued → failure) and `settle_rejected` (tx_in_flight → failure).
create or replace function tidegate_internal.settle_ended(
  p_leases tidegate.lease[], p_errors jsonb[], p_from tidegate.request_status, p_took_ms integer[], p_hedges integer[]
)
  returns table (id uuid, req_status tidegate.request_status) language plpgsql
as $$
declare
  v_cause constant text := case p_from when 'queued' then 'readiness_failed' else 'rejected' end;
  v_held  record;
  v_moved record;
begin
  select * into v_held from tidegate_internal.lock_held(p_leases);
  if p_from = 'tx_in_flight' and coalesce(cardinality(v_held.ids), 0) < cardinality(p_leases) then
    perform tidegate_internal.settle_late(p_leases, array(
      select coalesce(p_hedges[place], 0) = 0 and p_errors[place] ->> 'code' is distinct from 'unstorable_response'
      from generate_subscripts(p_leases, 1) as place
      order by place
    ));
  end if;
  if v_held.ids is null then
    return;
  end if;

  with moved as (
    update tidegate.request as r
    set
      req_status = 'failure', previous_status = r.req_status, transition_no = r.transition_no + 1, cause = v_cause,
      finished_at = tidegate.clock(), queue = null, msg_id = null, lease = null,
      tx_unsent = r.tx_unsent + h.refused,
      error = tidegate_internal.final_error(
        coalesce(p_errors[h.place], tidegate_internal.error_json(v_cause, 'no reason given', false)), null, r,
        r.tx_unsent + h.refused, false
      )
    from (
      select
        u.*,
        -- A refused send had no effect, unless another call was made for it. One whose answer could not be stored was
        -- executed.
        (p_from = 'tx_in_flight' and coalesce(p_hedges[u.place], 0) = 0
          and p_errors[u.place] ->> 'code' is distinct from 'unstorable_response')::integer as refused
      from unnest(v_held.ids, v_held.places, v_held.tokens, v_held.claimed) as u(id, place, token, claimed)
    ) as h
    where r.id = any(array[h.id]) and r.req_status = p_from
    returning
      r.id, r.kind, h.place, h.token, h.claimed,
      case p_from when 'queued' then r.readiness_attempt else r.tx_attempt end as attempt
  )
  select
    array_agg(m.id) as ids, array_agg(m.kind) as kinds, array_agg(m.attempt = 1) as first,
    array_agg(m.place) as places, array_agg(m.token) as tokens, array_agg(m.claimed) as claimed
  into v_moved
  from moved as m;

  perform tidegate_internal.end_leases(v_held.queue, v_moved.ids, v_moved.tokens, v_moved.claimed);
  perform tidegate_internal.record_calls(
    (case p_from when 'queued' then 'readiness' else 'tx' end)::tidegate.stage, v_moved.kinds, v_moved.first, null,
    null, v_moved.places, p_took_ms, p_hedges, v_moved.claimed
  );
  return query select unnest(v_moved.ids), 'failure'::tidegate.request_status;
end;
$$;
select tidegate_internal.plan_along_indexes('settle_ended');
