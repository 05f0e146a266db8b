-- $1 kind or null, $2 submitter or null, $3 high, $4 low or null, $5 mode, $6 actor
select tidegate.quota_set($1, $2, $3, $4, $5, $6);
