-- is_retried: Whether a policy's `retry_on` lists an error and does not exclude it: by its class, code, or HTTP status.
--
-- `!501` excludes a code or a status of a class that is listed. What the downstream has refused (4xx) is never sent
-- again, whatever is listed.
create or replace function tidegate.is_retried(retry_on text[], code text)
  returns boolean language plpgsql immutable parallel safe as $$
begin
  return tidegate.error_class(code) <> '4xx'
    and array[tidegate.error_class(code), code, substring(code from '^http_(.*)$')] && retry_on
    and not array['!' || code, '!' || substring(code from '^http_(.*)$')] && retry_on;
end;
$$;
select tidegate_internal.allow('is_retried', '{reader,api,worker,admin}');
