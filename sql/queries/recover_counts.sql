-- $1 dry run, $2 run
select kind, req_status::text as status, counted, requests from tidegate.recover_counts($1, $2);
