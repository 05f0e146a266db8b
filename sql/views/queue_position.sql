-- tidegate.queue_position: every message in every queue with its position among the waiting ones (0 is next)
create or replace view tidegate.queue_position as
select
  m.queue, m.msg_id, m.request_id, m.waiting, m.held, m.holder,
  case
    when m.held then 0
    when m.waiting then row_number() over (partition by m.queue, m.waiting order by m.msg_id) - 1
    else count(*) filter (where m.waiting) over (partition by m.queue order by m.msg_id)
  end as queue_position,
  case when not m.waiting then m.visible_at end as visible_at
from tidegate.all_messages() as m;
