-- apply_response: receipt_received → completed or failure, by one response, share or verdict.
--
-- Returns the outcome: `completed`, `rejected` (a proof's verdict), `stored` (a share; the threshold is not reached),
-- `duplicate` (a share already stored), `refused` (it does not fit the request's flow, see `response_refusal`), or null
-- when the request is not awaiting a response. The caller has locked the request's row, so the shares stored by others
-- are all visible to the count, which is a statement of its own: the threshold is reached exactly once, whatever the
-- order.
create or replace function tidegate_internal.apply_response(p_id uuid, p_response jsonb, p_part text, p_accept boolean)
  returns text language plpgsql
as $$
declare
  v_request  record;
  v_response jsonb := p_response;
begin
  select r.flow, r.response_threshold into v_request
  from tidegate.request as r
  where r.id = p_id and r.req_status = 'receipt_received';
  if not found then
    return null;
  end if;
  if tidegate_internal.response_refusal(v_request.flow, v_request.response_threshold, p_part, p_accept) is not null then
    return 'refused';
  end if;

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
    v_response := tidegate_internal.shares(p_id);
  end if;
  perform tidegate_internal.answer_requests(
    array[p_id], array[tidegate_internal.answer_cause(p_part, p_accept)], array[v_response]
  );
  return case when p_accept is false then 'rejected' else 'completed' end;
end;
$$;
select tidegate_internal.plan_along_indexes('apply_response');
