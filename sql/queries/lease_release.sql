-- $1 name, $2 epoch
select tidegate.lease_release($1, $2);
