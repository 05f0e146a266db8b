-- $1 dry run, $2 run
select queue from tidegate.recover_storage($1, $2) as queue;
