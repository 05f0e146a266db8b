-- response_backoff_seconds: The Retry-After of a response that has been awaited for a time, in seconds.
--
-- From the rows of `response_backoff`: the last one that begins at or before the time elapsed. No margin, no clamp.
create or replace function tidegate.response_backoff_seconds(elapsed interval)
  returns integer language plpgsql stable security definer as $$
begin
  return (
    select coalesce(
      (select b.seconds from tidegate.response_backoff as b
       where b.from_elapsed <= greatest(elapsed, interval '0') order by b.from_elapsed desc limit 1),
      (select b.seconds from tidegate.response_backoff as b order by b.from_elapsed limit 1)
    )
  );
end;
$$;
select tidegate_internal.allow('response_backoff_seconds', '{reader,api,worker,admin}');
