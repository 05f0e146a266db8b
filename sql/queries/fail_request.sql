-- $1 request id, $2 reason, $3 actor
select outcome, req_status::text as status from tidegate.fail_request($1, $2, $3);
