-- $1 kind or null, $2 since or null, $3 after or null, $4 batch
select examined, ended, wrong, next_after from tidegate.audit_lives($1, $2, $3, $4);
