-- $1 batch, $2 after, $3 dry run, $4 kind, $5 run
select examined, expired, dated, ids, next_after from tidegate.recover_deadlines($1, $2, $3, $4, $5);
