-- Comments on the tables of this folder's subject.

comment on function tidegate.clock is 'The time, for everything that Tidegate does; replaced in test databases only.';
select tidegate_internal.allow('clock', '{reader,api,worker,admin}');

comment on table tidegate.api_key is 'HTTP API keys, live and revoked. None: calls need no key, loopback only.';
comment on column tidegate.api_key.id is 'The part between the underscores of tg_ID_SECRET; not secret.';
comment on column tidegate.api_key.name is 'Its name for people; unique among live keys.';
comment on column tidegate.api_key.secret_hash is 'SHA-256 of the key; unsalted, as its secret is 256 random bits.';
comment on column tidegate.api_key.scopes is 'submit (own requests), respond (any request), admin (everything).';
comment on column tidegate.api_key.submitter is 'The submitter of its requests; several keys may share it.';
comment on column tidegate.api_key.created_at is 'When it was made.';
comment on column tidegate.api_key.created_by is 'The database user who made it.';
comment on column tidegate.api_key.revoked_at is 'When it ended; null: it is live.';
comment on column tidegate.api_key.revoked_by is 'The database user who ended it.';
comment on column tidegate.api_key.version is 'Number of its last change, in commit order over all keys (trigger).';
comment on index tidegate.api_key_live_name_idx is 'A live name names one key.';
comment on index tidegate.api_key_version_is_used_once is 'Serves key_changes: what changed after a version.';
