-- fail_internal: any live status → failure (internal_error), by an operator; returns the requests that moved.
--
-- `error` is {"code", "message", "retryable"}.
create or replace function tidegate.fail_internal(ids uuid[], error jsonb default null)
  returns table (id uuid, req_status tidegate.request_status) language plpgsql security definer as $$
begin
  perform tidegate_internal.lock_recovery_shared();
  return query select * from tidegate_internal.end_requests(
    fail_internal.ids, '{queued,processing,tx_in_flight,receipt_received}', 'failure',
    '{internal_error,internal_error,internal_error,internal_error}', fail_internal.error - 'details'
  );
end;
$$;
select tidegate_internal.allow('fail_internal', '{admin}');
