-- $1 the name of a cap, $2 actor
select tidegate.cap_remove($1, $2);
