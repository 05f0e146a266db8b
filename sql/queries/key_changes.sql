-- $1 version, $2 how many at most
select version, id, secret_hash, scopes, submitter, revoked from tidegate.key_changes($1, $2);
