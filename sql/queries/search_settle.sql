-- $1 request id, $2 receipt, answered or never, $3 reference, $4 response
select tidegate.search_settle($1, $2, $3, $4);
