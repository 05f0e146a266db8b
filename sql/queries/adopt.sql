-- $1 actor
select tidegate.adopt($1);
