-- $1 host
select tidegate.webhook_host_remove($1);
