-- $1 the name of a cap, $2 actor
select tidegate.quota_remove($1, $2);
