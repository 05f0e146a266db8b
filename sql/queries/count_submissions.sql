-- $1 kinds, $2 submissions, $3 replays among them
select tidegate.count_submissions($1, $2::bigint[]::integer[], $3::bigint[]::integer[]);
