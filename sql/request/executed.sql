-- executed: Whether the downstream has executed a request that ended: yes, no or unknown; null while it lives.
--
-- A completed request was executed; see `executed_of_failed` for others. An expression, which PostgreSQL puts in place
-- of the call: a call with the whole row reads its payload.
create or replace function tidegate.executed(request tidegate.request)
  returns text language sql stable parallel safe
return case
  when request.req_status = 'completed' then 'yes'
  when request.req_status in ('failure', 'timed_out') then tidegate.executed_of_failed(request)
end;
select tidegate_internal.allow('executed', '{reader,api,worker,admin}');
