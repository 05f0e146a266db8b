-- $1 batch, $2 dry run, $3 run
select applied, more from tidegate.recover_responses($1, $2, $3);
