-- $1 request ids, $2 what is known of each: a transition_no, or null
select id, transition_no, req_status::text as status from tidegate.moved_since($1, $2);
