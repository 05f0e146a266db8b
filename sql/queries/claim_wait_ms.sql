-- $1 queue, $2 kinds
select tidegate.claim_wait_ms($1, $2);
