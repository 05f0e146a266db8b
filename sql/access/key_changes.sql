-- key_changes: For API nodes: the keys that were made or revoked after version `after`, at most `batch`, in order.
--
-- Empty: nothing has changed. A node keeps all keys and asks this at most once a second, so an unknown key costs no
-- statement, however many are tried, and a revoked one is refused within a second.
create or replace function tidegate.key_changes(after bigint default 0, batch integer default 1000)
  returns table (version bigint, id text, secret_hash bytea, scopes text[], submitter text, revoked boolean)
  language plpgsql stable security definer as $$
begin
  return query
    select k.version, k.id, k.secret_hash, k.scopes, k.submitter, k.revoked_at is not null
    from tidegate.api_key as k
    where k.version > key_changes.after
    order by k.version
    limit least(key_changes.batch, 10000);
end;
$$;
select tidegate_internal.allow('key_changes', '{node,admin}');
