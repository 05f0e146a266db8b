-- put_back: Puts the messages of requests into a queue again, under their old numbers, each visible from its time on;
-- without times (null) at once.
--
-- For messages that a claim has taken out; null arrays hold none. A message that may be claimed at once can lie below
-- the queue's watermark, which is then lowered. Putting one back holds the watermark's lock until this transaction
-- ends, wherever the watermark stands, because a claim that raises it takes the same lock and reads again
-- (`watermark_advance`): else a raise that did not see this message yet would leave it behind. The caller locks no rows
-- afterwards. Messages with a finite time need none of this: the index on the visibility time finds them. A number that
-- another message has by now (the queue's table was made again) is replaced by a fresh one.
--
-- `p_lost` of them were under claims that were deleted by hand: the gate may know these numbers as dead.
create or replace function tidegate_internal.put_back(
  p_queue text, p_msg_ids bigint[], p_ids uuid[], p_visible timestamptz[] default null,
  p_lost bigint default 0
)
  returns void language plpgsql as $$
declare
  v_there  bigint[];
  v_taken  record;
  v_number bigint;
  v_first  bigint;
begin
  if p_msg_ids is null then
    return;
  end if;
  if p_lost > 0 then
    perform tidegate_internal.revive_numbers(p_queue, p_lost::integer);
  end if;
  case p_queue
    -- each fifo queue
    when 'QUEUE' then
      with back as (
        insert into pgmq.q_QUEUE (msg_id, enqueued_at, vt, message)
        overriding system value
        select b.msg_id, r.submitted_at, coalesce(b.visible, '-infinity'), jsonb_build_object('id', b.id)
        from unnest(p_msg_ids, p_ids, p_visible) as b(msg_id, id, visible)
        join tidegate.request as r on r.id = any(array[b.id])
        on conflict (msg_id) do nothing
        returning msg_id
      )
      select array_agg(back.msg_id) into v_there from back;
    -- end of each queue
    else v_there := tidegate_internal.put_back_to_turns(p_queue, p_msg_ids, p_ids, p_visible);
  end case;
  if cardinality(v_there) = cardinality(p_msg_ids) is not true then
    for v_taken in
      select b.id, coalesce(b.visible, '-infinity') as visible
      from unnest(p_msg_ids, p_ids, p_visible) as b(msg_id, id, visible)
      where b.msg_id <> all(coalesce(v_there, '{}'))
    loop
      perform tidegate_internal.register_draw(p_queue, 1, (tidegate_internal.queue_numbers(p_queue)).last);
      v_number := nextval(tidegate_internal.queue_sequence(p_queue));
      update tidegate.request as r set previous_status = r.req_status, msg_id = v_number where r.id = v_taken.id;
      perform tidegate_internal.send_messages(p_queue, array[v_taken.id], array[v_number], v_taken.visible);
    end loop;
  end if;

  select min(b.msg_id) into v_first
  from unnest(p_msg_ids, p_visible) as b(msg_id, visible)
  where coalesce(b.visible, '-infinity') = '-infinity';
  -- A fair queue has no watermark: the journal tells claims of these messages.
  if v_first is not null and (select q.fair_by is null from tidegate.queue as q where q.name = p_queue) then
    perform pg_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'watermark'));
    perform tidegate_internal.watermark_lower(p_queue, v_first);
  end if;
end;
$$;
select tidegate_internal.plan_along_indexes('put_back');
