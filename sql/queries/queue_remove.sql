-- $1 queue, $2 actor
select tidegate.queue_remove($1, $2);
