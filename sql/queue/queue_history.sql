-- queue_history: The depth and the drains of each queue by the minute, for a day; the latest first.
--
--   queue: The queue.
--   minute: The minute; the latest one is not over.
--   depth: Its messages at the beginning of the minute, or when it was recorded in it.
--   drained: Messages that left it in the minute.
create or replace view tidegate.queue_history as
select m.queue, m.minute, m.depth, m.drained
from tidegate.queue_minute as m
order by m.minute desc, m.queue;
