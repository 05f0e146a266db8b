-- $1 name, $2 epoch, $3 length in milliseconds
select tidegate.lease_keep($1, $2, make_interval(secs => $3 / 1000.0));
