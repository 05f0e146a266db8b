-- cancel: queued or processing → failure (cancelled), at once; a request that is being sent is cancelled unless its
-- send succeeds. Returns cancelled, cancelling, not_cancellable with the status that forbids it, or unknown.
--
-- `cancelled` also when it was cancelled before: a repeated call gets the same answer. A request under a check is
-- cancelled too: the settle of the check then moves nothing. `cancelling`: a worker is sending it. Its call goes on,
-- because its answer tells best whether it was executed; instead of another attempt the request ends as cancelled.
create or replace function tidegate.cancel(id uuid)
  returns table (outcome text, req_status tidegate.request_status) language plpgsql security definer as $$
begin
  -- Ten tries, because each statement may miss a request that moves on meanwhile. A try that misses it may still have
  -- locked its row. A claim locks the message first and then the row, so a later try does not wait for the message.
  for v_try in 1 .. 10 loop
    perform from tidegate_internal.end_requests(
      array[cancel.id], '{queued,processing}', 'failure', '{cancelled,cancelled}',
      tidegate_internal.error_json('cancelled', 'cancelled', false), p_locked => v_try > 1
    );
    update tidegate.request as r
    set previous_status = r.req_status, cancel_requested_at = coalesce(r.cancel_requested_at, tidegate.clock())
    where r.id = cancel.id and r.req_status = 'tx_in_flight';
    if found then
      outcome := 'cancelling';
      req_status := 'tx_in_flight';
      exit;
    end if;
    select
      r.req_status,
      case
        when r.req_status = 'failure' and r.error ->> 'code' = 'cancelled' then 'cancelled'
        else 'not_cancellable'
      end
    into req_status, outcome
    from tidegate.request as r
    where r.id = cancel.id;
    exit when coalesce(req_status not in ('queued', 'processing', 'tx_in_flight'), true);
  end loop;
  outcome := coalesce(outcome, 'unknown');
  return next;
end;
$$;
select tidegate_internal.allow('cancel', '{api,admin}');
