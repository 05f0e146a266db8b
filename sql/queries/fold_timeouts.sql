-- $1 kind, $2 stage, $3 version, $4 estimate, $5 report, $6 worker
select tidegate.fold_timeouts($1, $2::text::tidegate.stage, $3, $4, $5, $6);
