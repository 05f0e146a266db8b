-- $1 name, $2 stages, $3 queues, $4 stopping, $5 kinds
select tidegate.worker_seen($1, $2, $3, $4, $5);
