-- resolution: What is known of a request that failed or timed out after a send that may have been executed, as its
-- caller may see it: executed, source, at, and the response that came too late, if one did; null: nothing is.
--
-- Of a verdict that rejects, the error says it. An expression, as `executed`.
create or replace function tidegate.resolution(request tidegate.request)
  returns jsonb language sql stable parallel safe
return case when request.req_status in ('failure', 'timed_out') and request.cause <> 'verdict_rejected'
  then tidegate.resolution_of_failed(request) end;
select tidegate_internal.allow('resolution', '{reader,api,worker,admin}');
