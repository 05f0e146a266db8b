-- $1 gate, $2 how many at most: its changes, latest first
select
  h.at, h.epoch, h.signal, h.depth, h.cause, extract(epoch from h.lasted)::float8 as lasted_seconds, h.is_current
from tidegate.gate_history as h
where h.gate = $1
order by h.epoch desc
limit $2;
