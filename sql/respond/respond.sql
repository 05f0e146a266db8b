-- respond: Stores a response, share or verdict by id or reference; outcome completed, rejected, stored, duplicate,
-- early or late.
--
-- Address it by request id or by the reference of its receipt; an id wins. A response to a request that was repeated
-- answers the repeat. Returns the request, if it is known, its status now, and the outcome:
--   completed   the request is answered          rejected    the verdict was no: the request failed
--   stored      a share, more are needed         duplicate   this share was here already
--   early       kept until the receipt is stored late        kept: shows that the ended request was executed
-- Raises TG006 for an id that no request has, TG007 for a response that does not fit the request's flow.
create or replace function tidegate.respond(
  response jsonb, id uuid default null, reference text default null, part text default null,
  accept boolean default null
)
  returns table (request_id uuid, req_status tidegate.request_status, outcome text)
  language plpgsql security definer as $$
declare
  v_id      uuid := respond.id;
  v_repeat  uuid;
  v_request record;
  v_refusal text;
  v_outcome text;
begin
  if v_id is null then
    if respond.reference is null then
      raise exception using errcode = 'TG007', message = 'a response names its request: by id or by reference';
    end if;
    perform tidegate_internal.lock_names('reference', array[respond.reference]);
    select f.request_id into v_id from tidegate.request_reference as f where f.reference = respond.reference;
    if not found then
      insert into tidegate.response_inbox (reference, part, accept, response)
      values (respond.reference, respond.part, respond.accept, respond.response);
      return query select null::uuid, null::tidegate.request_status, 'early';
      return;
    end if;
  end if;

  loop
    -- Locked before it is read: a receipt that is being stored either sees this response in the inbox, or has
    -- moved the row before this lock was granted.
    select r.req_status, r.flow, r.response_threshold, coalesce(r.send_id, r.id) as send_id into v_request
    from tidegate.request as r
    where r.id = v_id
    for update;
    if not found then
      raise exception using errcode = 'TG006', message = format('there is no request %s', v_id);
    end if;
    v_refusal := tidegate_internal.response_refusal(v_request.flow, v_request.response_threshold, respond.part,
      respond.accept);
    if v_refusal is not null then
      raise exception using errcode = 'TG007', message = format('request %s: %s', v_id, v_refusal);
    end if;
    exit when v_request.req_status not in ('completed', 'timed_out', 'failure');
    -- What is sent under the same id repeats this request, and is answered by it.
    select r.id into v_repeat
    from tidegate.request as r
    where r.send_id = v_request.send_id and r.req_status not in ('completed', 'timed_out', 'failure');
    -- A share is no answer.
    if respond.part is null then
      perform tidegate_internal.resolve_requests(array[v_id], 'yes', 'response', p_answers => v_repeat is null);
    end if;
    exit when v_repeat is null;
    v_id := v_repeat;
  end loop;

  if v_request.req_status = 'receipt_received' then
    v_outcome := tidegate_internal.apply_response(v_id, respond.response, respond.part, respond.accept);
  else
    v_outcome := case when v_request.req_status in ('completed', 'timed_out', 'failure') then 'late' else 'early' end;
    insert into tidegate.response_inbox (request_id, reference, part, accept, response, late)
    values (v_id, respond.reference, respond.part, respond.accept, respond.response, v_outcome = 'late');
  end if;
  return query select r.id, r.req_status, v_outcome from tidegate.request as r where r.id = v_id;
end;
$$;
select tidegate_internal.allow('respond', '{api,worker,admin}');
select tidegate_internal.plan_along_indexes('respond');
