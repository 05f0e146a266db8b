-- $1 queue or null, $2 paused
select tidegate.pause($1, $2);
