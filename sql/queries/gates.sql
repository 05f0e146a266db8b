-- $1 queue, or null for all
select queue, state, mode, high_water, low_water, forced, epoch, depth as depth_at_change, changed_at
from tidegate.gate
where $1::text is null or queue = $1
order by queue;
