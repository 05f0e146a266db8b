-- fail_internal: any live status → failure (internal_error), by an operator; returns the requests that moved.
--
-- `error` is {"code", "message", "retryable"}.
create or replace function tidegate.fail_internal(ids uuid[], error jsonb default null)
  returns table (id uuid, req_status tidegate.request_status) language sql security definer as $$
  select tidegate_internal.lock_recovery_shared();
  select * from tidegate_internal.end_requests(
    ids, '{queued,processing,tx_in_flight,receipt_received}', 'failure',
    '{internal_error,internal_error,internal_error,internal_error}', fail_internal.error - 'details'
  );
$$;
select tidegate_internal.allow('fail_internal', '{admin}');
