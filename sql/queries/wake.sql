-- $1 queue
select tidegate.wake($1);
