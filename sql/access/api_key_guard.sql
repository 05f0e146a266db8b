-- api_key_guard: Trigger on api_key: numbers every change; a key is never deleted, never gets another id or secret, and
-- a revocation is final (TG007).
--
-- Changes are serialised and numbered in the order of their commits, so a node that has read version n misses nothing
-- when it reads the versions above n (`key_changes`). Because a key is never deleted, nodes that know one key never
-- serve without keys again.
create or replace function tidegate_internal.api_key_guard()
  returns trigger language plpgsql security definer as $$
begin
  if tg_op in ('DELETE', 'TRUNCATE') then
    raise exception using
      errcode = 'TG007', message = 'API keys are revoked, not deleted', hint = 'select * from tidegate.key_revoke(id)';
  end if;
  if tg_op = 'UPDATE' and (new.id <> old.id or new.secret_hash <> old.secret_hash) then
    raise exception using
      errcode = 'TG007', message = format('the id and secret of API key %s are fixed: create another key', old.id);
  end if;
  if tg_op = 'UPDATE' and old.revoked_at is not null and new.revoked_at is distinct from old.revoked_at then
    raise exception using
      errcode = 'TG007', message = format('API key %s is revoked permanently: create another key', old.id);
  end if;

  perform pg_advisory_xact_lock(hashtextextended('tidegate.api_key', 0));
  -- A separate statement, because its snapshot has to be younger than the lock.
  select coalesce(max(k.version), 0) + 1 into new.version from tidegate.api_key as k;
  return new;
end;
$$;

create or replace trigger api_key_guard
before insert or update or delete on tidegate.api_key
for each row execute function tidegate_internal.api_key_guard();

create or replace trigger api_key_stays
before truncate on tidegate.api_key
for each statement execute function tidegate_internal.api_key_guard();
