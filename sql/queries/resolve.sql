-- $1 request id, $2 executed, $3 note or null, $4 actor
select outcome, req_status::text as status, known, source from tidegate.resolve($1, $2, $3, $4);
