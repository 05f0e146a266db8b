-- key_create: Stores a new API key as a hash; the outcome is `unchanged` when the same key exists.
--
-- `id` is the part between the underscores of `tg_ID_SECRET`; `secret_hash` is the SHA-256 of the whole key text. No
-- slow hash is needed: the secret has 256 random bits, so it cannot be guessed from its hash. Requests submitted with
-- the key belong to `submitter`, which is `name` unless given; keys of one submitter see the same requests. Returns the
-- outcome `created`, or `unchanged` when the same key exists, so that a set-up may be repeated. Raises TG007 for a live
-- name or an id in use; a named constraint refuses other invalid values.
create or replace function tidegate.key_create(
  id text, name text, secret_hash bytea, scopes text[], submitter text default null
)
  returns table (outcome text, key_submitter text) language plpgsql security definer as $$
#variable_conflict use_column
declare
  v_submitter text := coalesce(key_create.submitter, key_create.name);
  v_scopes    text[] := array(select distinct s from unnest(key_create.scopes) as s order by s);
  v_known     tidegate.api_key;
begin
  insert into tidegate.api_key as k (id, name, secret_hash, scopes, submitter, version)
  values (key_create.id, key_create.name, key_create.secret_hash, v_scopes, v_submitter, 0)
  on conflict do nothing;
  if found then
    return query select 'created', v_submitter;
    return;
  end if;

  select * into v_known from tidegate.api_key as k where k.id = key_create.id;
  if not found then
    raise exception using errcode = 'TG007',
      message = format('a key named "%s" already exists', key_create.name),
      hint = format('revoke it, or give the new one another name and `--submitter %s`', v_submitter);
  end if;
  if v_known.revoked_at is null and v_known.secret_hash = key_create.secret_hash and v_known.name = key_create.name
    and v_known.scopes = v_scopes and v_known.submitter = v_submitter
  then
    return query select 'unchanged', v_submitter;
    return;
  end if;
  raise exception using errcode = 'TG007',
    message = format('key %s already exists, %s', key_create.id, case
      when v_known.revoked_at is not null then 'and is revoked' else 'with another secret, name, submitter or scope'
    end);
end;
$$;
select tidegate_internal.allow('key_create', '{admin}');
