-- $1 whether also for those that only move
select tidegate.watch($1);
