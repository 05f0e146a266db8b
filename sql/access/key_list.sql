-- key_list: Every API key ever made, revoked ones too, without its hash.
create or replace view tidegate.key_list as
select k.id, k.name, k.scopes, k.submitter, k.created_at, k.created_by, k.revoked_at, k.revoked_by
from tidegate.api_key as k;
comment on column tidegate.key_list.id is 'The part between the underscores of tg_ID_SECRET.';
comment on column tidegate.key_list.name is 'Its name for people.';
comment on column tidegate.key_list.scopes is 'Permissions: submit, respond, admin.';
comment on column tidegate.key_list.submitter is 'The submitter of its requests.';
comment on column tidegate.key_list.created_at is 'When it was made.';
comment on column tidegate.key_list.created_by is 'The database user who made it.';
comment on column tidegate.key_list.revoked_at is 'When it ended; null: it is live.';
comment on column tidegate.key_list.revoked_by is 'The database user who ended it.';
