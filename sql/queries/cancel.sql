-- $1 request id
select outcome, req_status::text as status from tidegate.cancel($1);
