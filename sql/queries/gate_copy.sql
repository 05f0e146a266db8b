select queue, kinds, state, high_water, depth, drain_rate::float8 as drain_rate
from tidegate.gate_copy()
where queue is not null and kinds <> '{}';
