-- $1 queue or null, $2 rows at most
select queue, submitter, requests, waiting, held, oldest_at, high_water from tidegate.submitter_counts($1, $2);
