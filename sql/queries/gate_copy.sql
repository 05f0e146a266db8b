select
  name, queue, submitter, kinds, passed_by, state = 'accepting' as accepting, high_water::bigint as high_water,
  low_water::bigint as low_water, depth, epoch, drain_rate::float8 as drain_rate, forced_wait::float8 as forced_wait,
  still_wait::float8 as still_wait, safety_margin::float8 as safety_margin, min_seconds::float8 as min_seconds,
  max_seconds::float8 as max_seconds, jitter::float8 as jitter, nodes::float8 as nodes, keyed
from tidegate.gate_copy();
