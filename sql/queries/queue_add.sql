-- $1 queue, $2 stage, $3 sends per second, $4 checks at once, $5 high mark, $6 low mark, $7 actor
select subject, name, value from tidegate.queue_add($1, $2, $3::float8::numeric, $4, $5, $6, $7);
