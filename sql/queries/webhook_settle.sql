-- $1 request id, $2 nonce, $3 outcome, $4 status, $5 error, $6 wait in milliseconds
select tidegate.webhook_settle($1, $2, $3, $4, $5, make_interval(secs => $6 / 1000.0));
