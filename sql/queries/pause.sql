-- $1 queue or null, $2 paused, $3 actor, $4 kind or null
select tidegate.pause($1, $2, $3, $4);
