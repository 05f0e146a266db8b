-- $1 the name of a gate, or null for all, $2 rows at most, $3 only changes before this id, or null
select
  id, at, gate, epoch, signal, state, depth, cause, actor, extract(epoch from lasted)::float8 as lasted_seconds,
  is_current
from tidegate.gate_history
where ($1::text is null or gate = $1) and ($3::bigint is null or id < $3)
order by id desc
limit $2;
