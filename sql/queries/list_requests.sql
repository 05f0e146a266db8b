-- $1 kind, $2 statuses or null, $3 since, $4 before, $5 submitter or null, $6 rows
select id, req_status::text as status, submitted_by, submitted_at, finished_at, next_before
from tidegate.list_requests($1, $2::tidegate.request_status[], $3, $4, $5, $6);
