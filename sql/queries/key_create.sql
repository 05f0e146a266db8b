-- $1 id, $2 name, $3 SHA-256 of the key, $4 scopes, $5 submitter or null
select outcome = 'created' as created, key_submitter as submitter from tidegate.key_create($1, $2, $3, $4, $5);
