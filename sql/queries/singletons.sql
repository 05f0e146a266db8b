-- lease_take: $1 name, $2 holder, $3 length in milliseconds
select tidegate.lease_take($1, $2, make_interval(secs => $3 / 1000.0));

-- lease_keep: $1 name, $2 epoch, $3 length in milliseconds
select tidegate.lease_keep($1, $2, make_interval(secs => $3 / 1000.0));

-- lease_release: $1 name, $2 epoch
select tidegate.lease_release($1, $2);
