-- $1 queue, $2 batch, $3 after, $4 dry run, $5 run
select removed, next_after from tidegate.remove_stray_messages($1, $2, $3, $4, $5);
