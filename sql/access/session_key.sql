-- session_key: For API nodes: the id of the API key whose session a token is of; null: none, it has expired, or its key
-- was revoked.
create or replace function tidegate.session_key(token_hash bytea)
  returns text language plpgsql stable security definer as $$
begin
  return (
    select s.key_id
    from tidegate.page_session as s
    join tidegate.api_key as k on k.id = s.key_id and k.revoked_at is null
    where s.token_hash = session_key.token_hash and s.expires_at > tidegate.clock()
  );
end;
$$;
select tidegate_internal.allow('session_key', '{node,admin}');
