select id, name, scopes, submitter, created_at, created_by, revoked_at, revoked_by
from tidegate.key_list
order by revoked_at is not null, created_at;
