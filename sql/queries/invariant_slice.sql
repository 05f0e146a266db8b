-- $1 before, $2 batch
select id_from, requests from tidegate.invariant_slice($1, $2);
