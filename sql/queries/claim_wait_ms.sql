-- $1 queue
select tidegate.claim_wait_ms($1);
