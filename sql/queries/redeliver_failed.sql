-- $1 batch, $2 after
select redelivered, next_after from tidegate.webhook_redeliver_failed($1, $2);
