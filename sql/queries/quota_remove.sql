-- $1 the name of a quota, $2 actor
select tidegate.quota_remove($1, $2);
