-- executed: Whether the downstream has executed a request that ended: yes, no or unknown; null while it lives.
--
-- A completed request was executed. Of others the row of `outcome` decides; without one, a request was not executed if
-- each of its sends certainly had no effect.
create or replace function tidegate.executed(request tidegate.request)
  returns text language sql stable parallel safe
return case
  when request.req_status = 'completed' then 'yes'
  when request.req_status in ('failure', 'timed_out') then coalesce(
    (select o.executed from tidegate.outcome as o where o.request_id = request.id),
    case when request.tx_attempt > request.tx_unsent then 'unknown' else 'no' end
  )
end;
select tidegate_internal.allow('executed', '{reader,api,worker,admin}');
