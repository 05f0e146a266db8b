-- What the tables of this folder's subject are for, column by column.

comment on function tidegate.clock is
  'The time, for everything that Tidegate does; replaced in test databases only.';
select tidegate_internal.allow('clock', '{reader,api,worker,admin}');

comment on table tidegate.api_key is
  'One row per key of the HTTP API, live or revoked; written by key_create and key_revoke, never deleted. While it is
  '
  'empty nobody has to show a key, and nodes listen on loopback only.';
comment on column tidegate.api_key.id is
  'Which key it is: the part between the underscores of tg_ID_SECRET; no secret.';
comment on column tidegate.api_key.name is 'What people call it; one live key has it.';
comment on column tidegate.api_key.secret_hash is
  'The SHA-256 of the whole key. Its secret has 256 random bits, so the hash needs to be neither slow nor salted.';
comment on column tidegate.api_key.scopes is
  'What it may do: submit (and see, list and cancel what its submitter submitted), respond (to any request), admin '
  '(everything).';
comment on column tidegate.api_key.submitter is 'Whose requests it submits and sees; several keys may share it.';
comment on column tidegate.api_key.created_at is 'When it was made.';
comment on column tidegate.api_key.created_by is 'The database user who made it.';
comment on column tidegate.api_key.revoked_at is 'When it ended; null: it is live.';
comment on column tidegate.api_key.revoked_by is 'The database user who ended it.';
comment on column tidegate.api_key.version is
  'The number of its last change among all changes of keys, in the order of their commits; given by a trigger.';
comment on index tidegate.api_key_live_name_idx is 'A live name names one key.';
comment on index tidegate.api_key_version_is_used_once is 'Serves key_changes: what changed after a version.';
