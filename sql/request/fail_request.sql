-- fail_request: Any live status → failure (internal_error), of one request, by an operator, for a reason; returns
-- failed, ended with the status of a request that has ended, or unknown.
--
-- Returns `failed` also when it was failed before for this reason: a repeated call gets the same answer. Raises 55P03
-- while another transaction keeps the request locked.
--
-- `reason` is the message of the request's error, which its caller receives. The history records `actor`, and the
-- database user. A request in flight may have left: the settle of its worker then moves nothing. Raises TG007 for a
-- reason that is empty or longer than 1000 characters.
create or replace function tidegate.fail_request(id uuid, reason text, actor text default null)
  returns table (outcome text, req_status tidegate.request_status) language plpgsql security definer as $$
declare
  v_actor_before text := tidegate_internal.set_actor(fail_request.actor);
begin
  if (length(btrim(fail_request.reason)) > 0 and length(fail_request.reason) <= 1000) is not true then
    raise exception using errcode = 'TG007', message = 'the reason of a failure is a text of 1 to 1000 characters';
  end if;
  perform tidegate_internal.lock_recovery_shared();
  -- Ten tries, because each may miss a request that moves from one queue to the other. A try that misses it may still
  -- have locked its row. A claim locks the message first and then the row, so a later try does not wait for the
  -- message.
  for v_try in 1 .. 10 loop
    outcome := (
      select 'failed'
      from tidegate_internal.end_requests(
        array[fail_request.id], '{queued,processing,tx_in_flight,receipt_received}', 'failure',
        '{internal_error,internal_error,internal_error,internal_error}',
        tidegate_internal.error_json('internal_error', fail_request.reason, true), p_locked => v_try > 1
      )
    );
    req_status := (select r.req_status from tidegate.request as r where r.id = fail_request.id);
    exit when outcome is not null or coalesce(req_status in ('completed', 'timed_out', 'failure'), true);
  end loop;
  if outcome is null and req_status in ('queued', 'processing', 'tx_in_flight', 'receipt_received') then
    raise exception using errcode = '55P03',
      message = format('request %s is locked by another transaction', fail_request.id), hint = 'try again';
  end if;
  outcome := coalesce(outcome, (
    select 'failed'
    from tidegate.request as r
    where r.id = fail_request.id and r.req_status = 'failure' and r.error ->> 'code' = 'internal_error'
      and starts_with(r.error ->> 'message', reason)
  ), case when req_status is null then 'unknown' else 'ended' end);
  perform set_config('tidegate.actor', v_actor_before, true);
  return next;
end;
$$;
select tidegate_internal.allow('fail_request', '{admin}');
