-- key_revoke: Ends an API key, permanently; every node refuses it within a second.
--
-- Returns the key: `revoked`, or `already_revoked` by an earlier call, with its time. Raises TG007 for an unknown id.
-- Calls that are under way finish.
create or replace function tidegate.key_revoke(id text)
  returns table (outcome text, name text, revoked_at timestamptz) language plpgsql security definer as $$
#variable_conflict use_column
begin
  return query
    update tidegate.api_key as k set revoked_at = tidegate.clock(), revoked_by = session_user
    where k.id = key_revoke.id and k.revoked_at is null
    returning 'revoked', k.name, k.revoked_at;
  if found then
    return;
  end if;
  return query select 'already_revoked', k.name, k.revoked_at from tidegate.api_key as k where k.id = key_revoke.id;
  if not found then
    raise exception using
      errcode = 'TG007', message = format('there is no API key %s', key_revoke.id), hint = 'tidegate key list';
  end if;
end;
$$;
select tidegate_internal.allow('key_revoke', '{admin}');
