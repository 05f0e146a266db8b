-- $1 request ids, $2 the known transition_no of each, or null
select id, transition_no, req_status::text as status from tidegate.moved_since($1, $2);
