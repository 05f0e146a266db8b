-- webhook_secrets: The secrets that sign a delivery to a host of the allow-list, the latest first.
--
-- The host's own active secrets, or else those for all hosts; empty when these were deleted.
create or replace function tidegate_internal.webhook_secrets(p_listed text)
  returns text[] language plpgsql stable as $$
begin
  return (
    select coalesce(array_agg(s.secret order by s.id desc) filter (where s.host is not null),
      array_agg(s.secret order by s.id desc), '{}')
    from tidegate.webhook_secret as s
    where (s.host = p_listed or s.host is null) and (s.expires_at is null or s.expires_at > tidegate.clock())
  );
end;
$$;
