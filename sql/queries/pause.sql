-- $1 queue or null, $2 paused, $3 actor
select tidegate.pause($1, $2, $3);
