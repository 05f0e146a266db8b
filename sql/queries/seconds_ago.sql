-- $1 seconds
select tidegate.clock() - make_interval(secs => $1);
