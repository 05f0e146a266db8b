-- Who may call the HTTP API. Only a hash of a key is here: the key itself is shown once, when it is made.

create table tidegate.api_key (
  id          text primary key,
  name        text not null,
  secret_hash bytea not null,
  scopes      text[] not null,
  submitter   text not null,
  created_at  timestamptz not null default clock_timestamp(),
  created_by  text not null default session_user,
  revoked_at  timestamptz,
  revoked_by  text,
  version     bigint not null,
  constraint api_key_id_is_sixteen_hex_digits check (id ~ '^[0-9a-f]{16}$'),
  constraint api_key_name_has_1_to_100_characters check (length(name) between 1 and 100),
  constraint api_key_secret_hash_is_a_sha256 check (length(secret_hash) = 32),
  constraint api_key_has_a_scope check (cardinality(scopes) > 0 and array_position(scopes, null) is null),
  constraint api_key_scopes_are_submit_respond_or_admin check (scopes <@ '{submit,respond,admin}'),
  constraint api_key_submitter_has_1_to_200_characters check (length(submitter) between 1 and 200),
  constraint api_key_is_revoked_by_somebody check ((revoked_at is null) = (revoked_by is null)),
  constraint api_key_version_is_used_once unique (version)
);

-- A live name names one key; a revoked one may be given again.
create unique index api_key_live_name_idx on tidegate.api_key (name) where revoked_at is null;
