-- no parameters
select name, says, query, by_request from tidegate.invariant order by place;
