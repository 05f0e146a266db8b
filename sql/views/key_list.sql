-- tidegate.key_list: every API key ever made, without its hash
create or replace view tidegate.key_list as
select k.id, k.name, k.scopes, k.submitter, k.created_at, k.created_by, k.revoked_at, k.revoked_by
from tidegate.api_key as k;
