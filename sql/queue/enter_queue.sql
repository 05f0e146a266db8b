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
  v_last     bigint;
  v_dead     bigint;
  v_mark     bigint;
  v_surveyed bigint;
  v_head     bigint;
  v_due      timestamptz;
  v_now      timestamptz;
begin
  case p_queue
    -- each queue
    when 'QUEUE' then
      select
        s.last_value - (not s.is_called)::integer, coalesce(pg_sequence_last_value('tidegate.offset_QUEUE'), 0),
        coalesce(pg_sequence_last_value('tidegate.watermark_QUEUE'), 0),
        pg_sequence_last_value('tidegate.surveyed_QUEUE')
      into v_last, v_dead, v_mark, v_surveyed
      from pgmq.q_QUEUE_msg_id_seq as s;
      if v_dead > v_last or v_last + cardinality(p_ids) > v_dead + p_high_water then
        if v_dead > v_last then
          v_dead := (tidegate_internal.queue_numbers(p_queue)).dead;
        end if;
        if v_last + cardinality(p_ids) > v_dead + p_high_water then
          return;
        end if;
      end if;
      -- Claims raise the mark in large steps. The first look reads only a few numbers of the index, not all of a page.
      if v_last - v_mark < 256 then
        v_head := v_mark;
      else
        select q.msg_id into v_head
        from pgmq.q_QUEUE as q
        where q.msg_id >= v_mark and q.msg_id < v_mark + 16
        order by q.msg_id
        limit 1;
        if v_head is null then
          select q.msg_id into v_head from pgmq.q_QUEUE as q where q.msg_id >= v_mark order by q.msg_id limit 1;
        end if;
      end if;
      -- Among 256 numbers the messages are counted one by one, in an order that leaves the plan one index; among more
      -- than 8192 none is.
      if v_head is null or v_last - v_head < 256 then
        v_now := tidegate.clock();
        v_due := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_QUEUE'), 0) / 1000000.0);
        select count(*) + (
          select count(*)
          from (
            select d.msg_id
            from pgmq.q_QUEUE as d
            where d.vt > '-infinity' and d.vt > v_due and d.vt <= v_now
            order by d.vt
            limit 256
          ) as due
          where due.msg_id < v_mark
        )
        into waiting
        from (
          select from pgmq.q_QUEUE as q
          where q.msg_id >= v_head and coalesce(q.vt <= v_now, false)
          order by q.msg_id
          limit 1024
        ) as m;
      elsif v_surveyed > 0 or v_last - v_head >= 8192 then
        waiting := greatest(0, v_last + 1 - greatest(v_head, v_surveyed));
      else
        -- Not surveyed yet. A few messages show whether most of these numbers are void.
        select
          case when count(*) < 64 then count(*) filter (where m.vt <= tidegate.clock()) else v_last + 1 - v_head end
        into waiting
        from (select q.vt from pgmq.q_QUEUE as q where q.msg_id >= v_head order by q.msg_id limit 64) as m;
      end if;

      if cardinality(p_ids) > 1 or (p_first is not true and pg_current_xact_id_if_assigned() is not null) then
        perform tidegate_internal.announce_draw(p_queue, cardinality(p_ids), v_last);
      end if;
      if cardinality(p_ids) = 1 then
        numbers := array[nextval('pgmq.q_QUEUE_msg_id_seq')];
      else
        numbers := array(select nextval('pgmq.q_QUEUE_msg_id_seq') from generate_series(1, cardinality(p_ids)));
      end if;
      fills := numbers[cardinality(p_ids)] >= v_dead + p_high_water;
      if fills and numbers[cardinality(p_ids)] > v_dead + p_high_water then
        numbers := null;
        return;
      end if;
      if cardinality(p_ids) = 1 then
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
