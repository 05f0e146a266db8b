-- $1 request id, $2 seconds until the next ask, or null
select tidegate.ask_settle($1, make_interval(secs => $2));
