-- $1 batch, $2 after, $3 dry run, $4 kind, $5 reset all, $6 force, $7 run
select examined, reset, ended, rebuilt, renumbered, counted, ids, next_after
from tidegate.recover($1, $2, $3, $4, $5, $6, $7);
