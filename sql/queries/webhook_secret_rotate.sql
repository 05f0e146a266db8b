-- $1 host or null, $2 overlap in seconds
select id, secret from tidegate.webhook_secret_rotate($1, make_interval(secs => $2));
