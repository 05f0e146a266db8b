-- gates: $1 the name of a gate, or null for all
select
  name, queue, kind, submitter, state, mode, depth, high_water, low_water, forced, epoch, depth_at_change, changed_at
from tidegate.gate_overview($1);

-- gate_force: $1 the name of a gate, $2 state or null, $3 actor
select tidegate.gate_force($1, $2, $3);

-- quota_set: $1 kind or null, $2 submitter or null, $3 high, $4 low or null, $5 mode, $6 actor
select tidegate.quota_set($1, $2, $3, $4, $5, $6);

-- quota_remove: $1 the name of a quota, $2 actor
select tidegate.quota_remove($1, $2);

-- gate_history: $1 the name of a gate, or null for all, $2 rows at most, $3 only changes before this id, or null
select
  id, at, gate, epoch, signal, state, depth, cause, actor, extract(epoch from lasted)::float8 as lasted_seconds,
  is_current
from tidegate.gate_history
where ($1::text is null or gate = $1) and ($3::bigint is null or id < $3)
order by id desc
limit $2;

-- gate_copy
select
  name, queue, submitter, kinds, passed_by, state = 'accepting' as accepting, high_water::bigint as high_water,
  low_water::bigint as low_water, depth, epoch, drain_rate::float8 as drain_rate, forced_wait::float8 as forced_wait,
  still_wait::float8 as still_wait, safety_margin::float8 as safety_margin, min_seconds::float8 as min_seconds,
  max_seconds::float8 as max_seconds, jitter::float8 as jitter, nodes::float8 as nodes, keyed
from tidegate.gate_copy();
