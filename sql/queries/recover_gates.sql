-- $1 dry run, $2 run
select tidegate.recover_gates($1, $2);
