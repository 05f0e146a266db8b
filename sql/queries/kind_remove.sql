-- $1 kind, $2 drain, $3 requests, $4 queues, $5 actor
select removed, live, ended, queues_removed, queues_kept from tidegate.kind_remove($1, $2, $3, $4, actor => $5);
