-- settle_failed: queued → failure, when the readiness check failed permanently; returns the requests that moved.
--
-- `errors` (one per lease): {"code", "message", "retryable"}. `took_ms` and `hedges` (one per lease, or null): how long
-- the call took, and how many more were made for it. Returns the requests that moved; a missing one was not this
-- holder's any more.
create or replace function tidegate_internal.settle_failed(
  leases tidegate.lease[], errors jsonb[], took_ms integer[] default null,
  hedges integer[] default null
)
  returns table (id uuid, req_status tidegate.request_status) language plpgsql as $$
begin
  return query select * from tidegate_internal.settle_ended(leases, errors, 'queued', took_ms, hedges);
end;
$$;
select tidegate_internal.plan_along_indexes('settle_failed');
