-- $1 response, $2 request id, $3 reference, $4 part, $5 accept
select request_id, req_status::text as status, outcome
from tidegate.respond($1, id => $2, reference => $3, part => $4, accept => $5);
