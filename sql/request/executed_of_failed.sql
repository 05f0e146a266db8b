-- executed_of_failed: Whether the downstream has executed a request that failed or timed out: yes, no or unknown.
--
-- Its row of `outcome` decides; without one, it was not executed if each of its sends certainly had no effect.
create or replace function tidegate.executed_of_failed(request tidegate.request)
  returns text language plpgsql stable parallel safe
  -- A plan that is kept may have been made for empty tables: along an index it serves full ones, too.
  set enable_seqscan = off
as $$
begin
  return coalesce(
    (select o.executed from tidegate.outcome as o where o.request_id = request.id),
    case when request.tx_attempt > request.tx_unsent then 'unknown' else 'no' end
  );
end;
$$;
select tidegate_internal.allow('executed_of_failed', '{reader,api,worker,admin}');
