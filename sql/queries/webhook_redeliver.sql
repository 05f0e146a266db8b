-- $1 request id
select tidegate.webhook_redeliver($1);
