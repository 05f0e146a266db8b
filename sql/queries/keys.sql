-- key_create: $1 id, $2 name, $3 SHA-256 of the key, $4 scopes, $5 submitter or null
select outcome = 'created' as created, key_submitter as submitter from tidegate.key_create($1, $2, $3, $4, $5);

-- key_revoke: $1 id
select outcome = 'revoked' as revoked, name, revoked_at from tidegate.key_revoke($1);

-- key_list
select id, name, scopes, submitter, created_at, created_by, revoked_at, revoked_by
from tidegate.key_list
order by revoked_at is not null, created_at;

-- key_changes: $1 version, $2 how many at most
select version, id, secret_hash, scopes, submitter, revoked from tidegate.key_changes($1, $2);
