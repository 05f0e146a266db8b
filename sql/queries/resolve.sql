-- $1 request id, $2 executed, $3 note or null, $4 actor, $5 whether the downstream says so
select outcome, req_status::text as status, known, source from tidegate.resolve($1, $2, $3, $4, $5);
