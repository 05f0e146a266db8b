-- $1 batch, $2 after, $3 kind, $4 since, $5 code, $6 dry run, $7 actor, $8 may repeat, $9 submitter, $10 until
select redriven, refused, retry_after_seconds, ids, new_ids, unfit_ids, unfit_reasons, next_after
from tidegate.redrive($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);
