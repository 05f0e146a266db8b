-- $1 dry run, $2 id of the recovery that counts the repaired queues, or null
select queue from tidegate.recover_storage($1, $2) as queue;
