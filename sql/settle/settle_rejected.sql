-- settle_rejected: tx_in_flight → failure, when the downstream refused permanently; returns the requests that moved.
--
-- `errors` (one per lease): {"code", "message", "retryable"}. `took_ms` and `hedges` (one per lease, or null): how long
-- the call took, and how many more were made for it. Returns the requests that moved; a missing one was not this
-- holder's any more.
create or replace function tidegate_internal.settle_rejected(
  leases tidegate.lease[], errors jsonb[], took_ms integer[] default null,
  hedges integer[] default null
)
  returns table (id uuid, req_status tidegate.request_status) language plpgsql as $$
begin
  return query select * from tidegate_internal.settle_ended(leases, errors, 'tx_in_flight', took_ms, hedges);
end;
$$;
select tidegate_internal.plan_along_indexes('settle_rejected');
