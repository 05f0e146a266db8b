-- $1 reason, $2 actor
select tidegate.quarantine($1, $2);
