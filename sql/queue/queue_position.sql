-- queue_position: Every message in every queue, with its position; reads all of them: a second for 200,000. For one
-- request, call request_position(id).
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
comment on column tidegate.queue_position.queue is 'The queue.';
comment on column tidegate.queue_position.msg_id is 'The number of the message; smaller ones are claimed first.';
comment on column tidegate.queue_position.request_id is 'The request it stands for.';
comment on column tidegate.queue_position.waiting is 'Whether it may be claimed now.';
comment on column tidegate.queue_position.held is 'Whether a worker holds it under a lease that has not run out.';
comment on column tidegate.queue_position.holder is 'The worker that holds it; null: none does.';
comment on column tidegate.queue_position.queue_position is 'How many waiting messages precede it; 0: next, or held.';
comment on column tidegate.queue_position.visible_at is 'When a message that does not wait may be claimed.';
