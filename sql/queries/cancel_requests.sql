-- $1 kind, $2 statuses, $3 since, $4 until, $5 submitter, $6 queue, $7 before, $8 batch, $9 dry run
select cancelled, cancelling, ids, next_before
from tidegate.cancel_requests($1, $2::tidegate.request_status[], $3, $4, $5, $6, $7, $8, $9);
