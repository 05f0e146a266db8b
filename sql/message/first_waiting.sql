-- first_waiting: The first waiting messages of every queue, or of one, `batch` of each at most, and since when each is
-- visible.
--
-- Found as claims find them, from the watermarks on or in turns, so the cost does not depend on the depth. For the view
-- `stuck_request` and for `tidegate list --waiting`. Raises TG005 for an unknown queue.
create or replace function tidegate.first_waiting(batch integer default 100, in_queue text default null)
  returns table (queue text, msg_id bigint, request_id uuid, visible_at timestamptz)
  language plpgsql stable security definer
  -- So that what is joined with them is looked up, not read as a whole.
  rows 100
as $$
declare
  v_now   timestamptz := tidegate.clock();
  v_queue text;
  v_fair  boolean;
begin
  perform tidegate_internal.require_queue(in_queue) where in_queue is not null;
  for v_queue, v_fair in
    select q.name, q.fair_by is not null
    from tidegate_internal.stored_queues() as q
    where q.name = coalesce(in_queue, q.name)
  loop
    if v_fair then
      return query
        select v_queue, f.msg_id, tidegate.message_request_id(f.message), f.vt
        from tidegate_internal.turns_first(v_queue, first_waiting.batch, v_now) as f;
      continue;
    end if;
    return query execute format(
      $sql$
        select $1, f.msg_id, tidegate.message_request_id(f.message), f.vt
        from (
          (select m.msg_id, m.message, m.vt from %1$s as m where m.msg_id >= $2 and m.vt <= $4
           order by m.msg_id limit $5)
          union
          (select m.msg_id, m.message, m.vt from %1$s as m where m.vt > $3 and m.vt <= $4 order by m.vt limit $5)
        ) as f
        order by f.msg_id
        limit $5
      $sql$, tidegate_internal.queue_table(v_queue)
    ) using
      v_queue, coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(v_queue, 'watermark')), 0),
      to_timestamp(
        coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(v_queue, 'due_watermark')), 0) / 1000000.0
      ),
      v_now, first_waiting.batch;
  end loop;
end;
$$;
select tidegate_internal.allow('first_waiting', '{reader,api,worker,admin}');
