select
  name, queue, submitter, kinds, passed_by, state, high_water, low_water, depth, epoch,
  drain_rate::float8 as drain_rate, forced_wait, still_wait, safety_margin::float8 as safety_margin, min_seconds,
  max_seconds, jitter::float8 as jitter, nodes, keyed
from tidegate.gate_copy();
