-- $1 id
select outcome = 'revoked' as revoked, name, revoked_at from tidegate.key_revoke($1);
