-- request_retry_after: In how many seconds to ask for a request again; 0 when it has ended, null if unknown.
create or replace function tidegate.request_retry_after(id uuid)
  returns integer language plpgsql stable security definer as $$
begin
  return (select o.retry_after_seconds from tidegate.request_outlooks(array[request_retry_after.id]) as o);
end;
$$;
select tidegate_internal.allow('request_retry_after', '{reader,api,worker,admin}');
