-- $1 seconds
select clock_timestamp() - make_interval(secs => $1);
