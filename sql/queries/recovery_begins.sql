-- $1 options, $2 actor
select tidegate.recovery_begins($1, $2);
