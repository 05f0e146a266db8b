-- queue_position: Every message in every queue, with its position; reads all of them: a second for 200,000. For one
-- request, call request_position(id).
--
--   queue: The queue.
--   msg_id: The number of the message; smaller ones are claimed first, in a fair queue those of each key.
--   request_id: The request it stands for.
--   waiting: Whether it may be claimed now.
--   held: Whether a worker holds it under a lease that has not run out.
--   holder: The worker that holds it; null: none does.
--   queue_position: How many waiting messages precede it; 0: next, or held.
--   visible_at: When a message that does not wait may be claimed.
create or replace view tidegate.queue_position as
select
  m.queue, m.msg_id, m.request_id, m.waiting, m.held, m.holder,
  case
    when m.held then 0
    when m.waiting then row_number() over (partition by m.queue, m.waiting order by m.starts, m.turn_no, m.msg_id) - 1
    else count(*) filter (where m.waiting) over (partition by m.queue order by m.starts, m.turn_no, m.msg_id)
  end as queue_position,
  case when not m.waiting then m.visible_at end as visible_at
from tidegate.all_messages() as m;
