-- gate_room: How many more messages each queue's gate admits by the numbers that were drawn.
--
--   queue: The queue.
--   state: State of its gate: accepting or too_many_requests.
--   high_water: The depth at which it closes.
--   last: The last message number that was drawn.
--   dead: How many numbers are known to have no live message.
--   room: How many more numbers it admits; when none is left, the queue is counted, and more are known to be dead.
create or replace view tidegate.gate_room as
select
  g.queue, g.state, g.high_water, l.value as last, o.value as dead,
  greatest(0, o.value + g.high_water - l.value) as room
from tidegate.gate as g
join tidegate.queue_counter_values() as l on l.queue = g.queue and l.counter = 'last'
join tidegate.queue_counter_values() as o on o.queue = g.queue and o.counter = 'offset';
