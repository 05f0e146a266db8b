-- $1 before, $2 span, in milliseconds
select id_from, requests from tidegate.invariant_slice($1, $2 * interval '1 millisecond');
