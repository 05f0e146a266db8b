-- key_list: Every API key ever made, revoked ones too, without its hash.
--
--   id: The part between the underscores of tg_ID_SECRET.
--   name: Its name for people.
--   scopes: Permissions: submit, submit-accepted, respond, read, payload, admin.
--   submitter: The submitter of its requests.
--   created_at: When it was made.
--   created_by: The database user who made it.
--   revoked_at: When it ended; null: it is live.
--   revoked_by: The database user who ended it.
create or replace view tidegate.key_list as
select k.id, k.name, k.scopes, k.submitter, k.created_at, k.created_by, k.revoked_at, k.revoked_by
from tidegate.api_key as k;
