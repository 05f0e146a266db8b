-- cancel: queued or processing → failure (cancelled), unless the request has been sent; returns cancelled,
-- not_cancellable with the status that forbids it, or unknown.
--
-- Returns one row: `cancelled` (also when it was cancelled before: a repeated call gets the same answer), or
-- `not_cancellable` with the status that forbids it, or `unknown`. A request under a check is cancelled too: the
-- settle of the check then moves nothing.
create or replace function tidegate.cancel(id uuid)
  returns table (outcome text, req_status tidegate.request_status) language plpgsql security definer as $$
begin
  -- Ten tries, because a request that moves from one queue to the other is missed by one of them.
  for v_try in 1 .. 10 loop
    perform from tidegate_internal.end_requests(
      array[cancel.id], '{queued,processing}', 'failure', '{cancelled,cancelled}',
      tidegate_internal.error_json('cancelled', 'cancelled before it was sent', false)
    );
    select
      r.req_status,
      case
        when r.req_status = 'failure' and r.error ->> 'code' = 'cancelled' then 'cancelled'
        else 'not_cancellable'
      end
    into req_status, outcome
    from tidegate.request as r
    where r.id = cancel.id;
    exit when coalesce(req_status not in ('queued', 'processing'), true);
  end loop;
  outcome := coalesce(outcome, 'unknown');
  return next;
end;
$$;
select tidegate_internal.allow('cancel', '{api,admin}');
