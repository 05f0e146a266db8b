-- $1 ids that ended, $2 ids that moved
select tidegate.announce($1, $2);
