-- fail_tx: processing or tx_in_flight → failure, a proof also from receipt_received, by an operator; returns the
-- requests that moved.
--
-- By an operator: the send is refused before it left, or known to have been rejected. `error` is
-- {"code", "message", "retryable"}. Returns the requests that moved.
create or replace function tidegate.fail_tx(ids uuid[], error jsonb default null)
  returns table (id uuid, req_status tidegate.request_status) language sql security definer as $$
  select tidegate_internal.lock_recovery_shared();
  select * from tidegate_internal.end_requests(
    ids, '{processing,tx_in_flight,receipt_received}', 'failure', '{send_refused,rejected,verdict_rejected}',
    fail_tx.error
  );
$$;
select tidegate_internal.allow('fail_tx', '{admin}');
