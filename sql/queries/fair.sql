-- fair_overview
select queue, fair_by, active_keys, idle_turns, arrivals from tidegate.fair_overview() order by queue;

-- fair_keys: $1 queue, $2 rows at most
select
  name, weight, paused, waiting, held, share::float8 as share, extract(epoch from oldest_age)::float8 as oldest_seconds
from tidegate.fair_keys($1, $2);

-- fair_key_set: $1 queue, $2 submitter or kind, $3 weight or null, $4 whether it is paused, or null, $5 actor
select tidegate.fair_key_set($1, $2, $3, $4, $5);

-- fair_key_remove: $1 queue, $2 submitter or kind, $3 actor
select tidegate.fair_key_remove($1, $2, $3);
