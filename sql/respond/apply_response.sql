-- apply_response: receipt_received → completed or failure, by one response, share or verdict.
--
-- Returns the outcome: `completed`, `rejected` (a proof's verdict), `stored` (a share; the threshold is not reached),
-- `duplicate` (a share already stored), `refused` (it does not fit the request's flow, see `response_refusal`), or null
-- when the request is not awaiting a response. The caller has locked the request's row, so the shares stored by others
-- are all visible to the count, which is a statement of its own: the threshold is reached exactly once, whatever the
-- order.
--
-- A rejected proof's error has the verdict as `details` if its kind has `reject_details` now. It is in the row, so that
-- polls, streams and every attempt of a webhook show the same.
create or replace function tidegate_internal.apply_response(p_id uuid, p_response jsonb, p_part text, p_accept boolean)
  returns text language plpgsql
as $$
declare
  v_request tidegate.request;
  v_cause   text;
  v_done    text; -- for an assignment, which costs less than a statement
begin
  select * into v_request from tidegate.request as r where r.id = p_id and r.req_status = 'receipt_received';
  if not found then
    return null;
  end if;
  if tidegate_internal.response_refusal(v_request.flow, v_request.response_threshold, p_part, p_accept) is not null then
    return 'refused';
  end if;

  v_cause := case
    when p_part is not null then 'threshold_reached'
    when p_accept then 'verdict_accepted'
    when not p_accept then 'verdict_rejected'
    else 'response'
  end;
  if p_part is not null then
    insert into tidegate.response_part (request_id, part, response)
    values (p_id, p_part, p_response)
    on conflict do nothing;
    if not found then
      return 'duplicate';
    end if;
    if (select count(*) from tidegate.response_part as p where p.request_id = p_id) < v_request.response_threshold then
      return 'stored';
    end if;
  end if;

  v_done := set_config('tidegate.announced', pg_current_xact_id()::text, true);
  update tidegate.request as r
  set
    previous_status = r.req_status, transition_no = r.transition_no + 1, cause = v_cause,
    req_status = (case v_cause when 'verdict_rejected' then 'failure' else 'completed' end)::tidegate.request_status,
    finished_at = tidegate.clock(),
    response = case
      when p_part is null then p_response
      else (
        select jsonb_build_object('shares', jsonb_object_agg(p.part, p.response))
        from tidegate.response_part as p
        where p.request_id = p_id
      )
    end,
    error = case when v_cause = 'verdict_rejected' then
      tidegate_internal.error_json('verdict_rejected', 'the downstream rejected the proof', false) || case
        when p_response <> 'null'
          and (select k.reject_details from tidegate.kind as k where k.name = v_request.kind)
        then jsonb_build_object('details', p_response)
        else '{}'
      end
    end
  where r.id = p_id;
  v_done := set_config('tidegate.announced', '', true);
  if v_cause = 'verdict_rejected' then
    perform from tidegate_internal.establish(array[p_id], 'yes', 'response');
    return 'rejected';
  end if;
  return 'completed';
end;
$$;
select tidegate_internal.plan_along_indexes('apply_response');
