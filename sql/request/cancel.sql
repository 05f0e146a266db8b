-- cancel: queued or processing → failure (cancelled), unless the request has been sent; returns cancelled,
-- not_cancellable with the status that forbids it, or unknown.
--
-- Returns one row: `cancelled` (also when it was cancelled before: a repeated call gets the same answer), or
-- `not_cancellable` with the status that forbids it, or `unknown`. A request under a check is cancelled too: the
-- settle of the check then moves nothing.
create or replace function tidegate.cancel(id uuid)
  returns table (outcome text, req_status tidegate.request_status) language plpgsql security definer as $$
#variable_conflict use_column
declare
  v_now  tidegate.request_status;
  v_code text;
begin
  -- Ten tries, because a request that moves from one queue to the other is missed by one of them.
  for v_try in 1 .. 10 loop
    if exists (
      select from tidegate_internal.end_requests(
        array[cancel.id], '{queued,processing}', 'failure', '{cancelled,cancelled}',
        tidegate_internal.error_json('cancelled', 'cancelled before it was sent', false)
      )
    ) then
      return query select 'cancelled', 'failure'::tidegate.request_status;
      return;
    end if;

    select r.req_status, r.error ->> 'code' into v_now, v_code from tidegate.request as r where r.id = cancel.id;
    if not found then
      return query select 'unknown', null::tidegate.request_status;
      return;
    end if;
    if v_now = 'failure' and v_code = 'cancelled' then
      return query select 'cancelled', v_now;
      return;
    end if;
    if v_now not in ('queued', 'processing') or v_try = 10 then
      return query select 'not_cancellable', v_now;
      return;
    end if;
  end loop;
end;
$$;
select tidegate_internal.allow('cancel', '{api,admin}');
