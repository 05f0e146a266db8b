-- Comments on the tables of this folder's subject.

-- table api_key: HTTP API keys, live and revoked. None: calls need no key, loopback only.
--   id: The part between the underscores of tg_ID_SECRET; not secret.
--   name: Its name for people; unique among live keys.
--   secret_hash: SHA-256 of the key; unsalted, as its secret is 256 random bits.
--   scopes: submit (own requests), submit-accepted (also past closed gates), respond, read, payload, admin.
--   submitter: The submitter of its requests; several keys may share it.
--   created_at: When it was made.
--   created_by: The database user who made it.
--   revoked_at: When it ended; null: it is live.
--   revoked_by: The database user who ended it.
--   version: Number of its last change, in commit order over all keys (trigger).

-- index api_key_live_name_idx: A live name names one key.

-- index api_key_version_is_used_once: Serves key_changes: what changed after a version.

-- function clock: The time, for everything that Tidegate does; replaced in test databases only.
select tidegate_internal.allow('clock', '{reader,api,worker,admin}');

-- table page_session: Who is signed in to the pages for operators; expired ones are removed when the next one begins.
--   token_hash: SHA-256 of the token that the browser has.
--   key_id: The API key that was shown.
--   began_at: When it began.
--   expires_at: When it ends by itself.

-- index page_session_expires_at_idx: Serves the removal of those that have expired.
