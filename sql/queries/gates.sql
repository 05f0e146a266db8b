-- $1 the name of a gate, or null for all
select
  name, queue, kind, submitter, state, mode, depth, high_water, low_water, forced, epoch, depth_at_change, changed_at
from tidegate.gate_overview($1);
