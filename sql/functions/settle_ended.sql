-- tidegate.settle_ended: a stage's final no: the request ends in failure, with the error given
--
-- The inner form of `settle_failed` (queued → failure) and `settle_rejected` (tx_in_flight → failure).
create or replace function tidegate.settle_ended(
  p_leases tidegate.lease[],
  p_errors jsonb[],
  p_from   tidegate.request_status,
  p_cause  text
)
  returns table (id uuid, req_status tidegate.request_status)
  language plpgsql
as $$
#variable_conflict use_column
declare
  v_held record;
  v_ids  uuid[];
  v_done bigint[];
begin
  select * into v_held from tidegate.lock_held(p_leases);
  if v_held.ids is null then
    return;
  end if;

  with moved as (
    update tidegate.request as r
    set
      req_status = 'failure', transition_no = r.transition_no + 1, cause = p_cause, queue = null, msg_id = null,
      error = coalesce(p_errors[h.place], tidegate.error_json(p_cause, 'no reason given', false))
    from unnest(v_held.ids, v_held.msg_ids, v_held.places) as h(id, msg_id, place)
    where r.id = h.id and r.req_status = p_from and r.queue = v_held.queue and r.msg_id = h.msg_id
    returning r.id, h.msg_id
  )
  select array_agg(m.id), array_agg(m.msg_id) into v_ids, v_done from moved as m;

  perform tidegate.delete_messages(v_held.queue, v_done, true);
  return query select unnest(v_ids), 'failure'::tidegate.request_status;
end;
$$;
