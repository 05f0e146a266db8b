-- $1 host, $2 whether it may have private addresses
select tidegate.webhook_host_add($1, $2);
