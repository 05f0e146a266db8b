-- enter_queue: Draws numbers for new requests and puts their messages into a queue; nulls when its gate has no room for
-- all.
--
-- `p_high_water` is the gate's mark, null to enter without a limit (admission `accepted`, a gate held open). The gate
-- lets in the numbers up to its offset, which counts numbers known to be dead, plus the mark. So of the numbers up to
-- the last one let in at most as many as the mark says are live. The offset is read before the draw, and the caller
-- refreshes it when the numbers run out (see `queue_room`). Numbers without a message are void: dead at the end of the
-- transaction. `p_first` means that this transaction has drawn nothing before, although it has written.
--
-- Its callers set the planner settings: once, because a setting costs as much as a small query.
--
-- Returns the numbers, `fills`: whether they may have brought the depth to the mark, and how many messages wait before
-- the first of them. A few hundred are counted. More are estimated from the last survey, some seconds old, and by the
-- numbers drawn since then, but no more than there are from the head on.
create or replace function tidegate_internal.enter_queue(
  p_queue text, p_ids uuid[], p_high_water bigint, p_visible timestamptz,
  p_first boolean default false,
  out numbers bigint[], out waiting bigint, out fills boolean
)
  language plpgsql as $$
declare
  v_count constant integer := cardinality(p_ids);
  v_few   constant integer := 256;   -- numbers; the messages among so many are counted one by one
  v_many  constant integer := 8192;  -- numbers; among more no message is counted
  v_now   constant timestamptz := tidegate.clock();
  v_head  bigint;
  v_due   timestamptz;
  v_known record;
begin
  case p_queue
    -- each queue
    when 'QUEUE' then
      select
        s.last_value - (not s.is_called)::integer as last,
        coalesce(pg_sequence_last_value('tidegate.offset_QUEUE'), 0) as dead,
        coalesce(pg_sequence_last_value('tidegate.watermark_QUEUE'), 0) as mark,
        pg_sequence_last_value('tidegate.surveyed_QUEUE') as surveyed
      into v_known
      from pgmq.q_QUEUE_msg_id_seq as s;
      if v_known.dead > v_known.last then
        v_known.dead := (tidegate_internal.queue_numbers(p_queue)).dead;
      end if;
      if v_known.last + v_count > v_known.dead + p_high_water then
        return;
      end if;
      -- Claims raise the mark in large steps.
      v_head := v_known.mark;
      if v_known.last - v_head >= v_few then
        v_head := (select q.msg_id from pgmq.q_QUEUE as q where q.msg_id >= v_known.mark order by q.msg_id limit 1);
      end if;
      if v_head is null or v_known.last - v_head < v_few then
        v_due := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_QUEUE'), 0) / 1000000.0);
        select count(*) + (
          select count(*)
          from (
            select d.msg_id
            from pgmq.q_QUEUE as d
            where d.vt > '-infinity' and d.vt > v_due and d.vt <= v_now
            order by d.vt
            limit v_few
          ) as due
          where due.msg_id < v_known.mark
        )
        into waiting
        from pgmq.q_QUEUE as m
        where m.msg_id >= v_head and coalesce(m.vt <= v_now, false);
      elsif v_known.surveyed > 0 or v_known.last - v_head >= v_many then
        waiting := greatest(0, v_known.last + 1 - greatest(v_head, v_known.surveyed));
      else
        -- Not surveyed yet. A few messages show whether most of these numbers are void.
        select
          case when count(*) < v_few / 4 then count(*) filter (where m.vt <= v_now) else v_known.last + 1 - v_head end
        into waiting
        from (select q.vt from pgmq.q_QUEUE as q where q.msg_id >= v_head order by q.msg_id limit v_few / 4) as m;
      end if;

      if v_count > 1 or (pg_current_xact_id_if_assigned() is not null and p_first is not true) then
        perform tidegate_internal.announce_draw(p_queue, v_count, v_known.last);
      end if;
      if v_count = 1 then
        numbers := array[nextval('pgmq.q_QUEUE_msg_id_seq')];
      else
        numbers := array(select nextval('pgmq.q_QUEUE_msg_id_seq') from generate_series(1, v_count));
      end if;
      fills := numbers[v_count] >= v_known.dead + p_high_water;
      if numbers[v_count] > v_known.dead + p_high_water then
        numbers := null;
        return;
      end if;
      if v_count = 1 then
        insert into pgmq.q_QUEUE (msg_id, vt, message)
        overriding system value
        values (numbers[1], p_visible, jsonb_build_object('id', p_ids[1]));
      else
        insert into pgmq.q_QUEUE (msg_id, vt, message)
        overriding system value
        select m.msg_id, p_visible, jsonb_build_object('id', m.id)
        from unnest(p_ids, numbers) as m(id, msg_id);
      end if;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;
