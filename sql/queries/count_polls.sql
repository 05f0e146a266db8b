-- $1 kinds, $2 requests answered, $3 polls, $4 lateness in milliseconds
select tidegate.count_polls($1, $2, $3, $4);
