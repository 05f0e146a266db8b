-- session_begin: For API nodes: begins a session of the pages for operators, and removes those that have expired.
--
-- `token_hash` is the SHA-256 of the token that the browser has, `key_id` names the API key that was shown. Raises
-- TG007 for a key that is unknown or revoked.
create or replace function tidegate.session_begin(token_hash bytea, key_id text, lasts interval)
  returns void language plpgsql security definer as $$
begin
  delete from tidegate.page_session as s where s.expires_at <= tidegate.clock();
  insert into tidegate.page_session (token_hash, key_id, expires_at)
  select session_begin.token_hash, k.id, tidegate.clock() + session_begin.lasts
  from tidegate.api_key as k
  where k.id = session_begin.key_id and k.revoked_at is null;
  if not found then
    raise exception using errcode = 'TG007',
      message = format('there is no live API key %s', session_begin.key_id), hint = 'tidegate key list';
  end if;
end;
$$;
select tidegate_internal.allow('session_begin', '{node,admin}');
