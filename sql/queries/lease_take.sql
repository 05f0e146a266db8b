-- $1 name, $2 holder, $3 length in milliseconds
select tidegate.lease_take($1, $2, make_interval(secs => $3 / 1000.0));
