-- enter_queue: draws numbers for new requests and puts their messages into a queue; nulls when its gate has no room for all
--
-- `p_high_water` is the gate's mark, null to enter without a limit (promised work, a gate held open). The gate lets in the
-- numbers up to its offset, which counts numbers known to be dead, plus the mark. So of the numbers up to the last one let in
-- at most as many as the mark says are live. The offset is read before the draw, and the caller refreshes it when the numbers run
-- out (see `queue_room`). What is drawn in vain is void: dead at the end of the transaction.
--
-- Returns the numbers, how many messages wait before the first of them (as `waiting_before` tells without counting), and
-- `fills`: whether they may have brought the depth to the mark.
create or replace function tidegate_internal.enter_queue(
  p_queue      text,
  p_ids        uuid[],
  p_high_water bigint,
  p_visible    timestamptz,
  out numbers  bigint[],
  out waiting  bigint,
  out fills    boolean
)
  language plpgsql
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones, too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set enable_sort = off
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_count constant integer := cardinality(p_ids);
  v_few   constant integer := 256;   -- messages, counted one by one
  v_lag   constant integer := 8192;  -- numbers; by more the low-water mark does not lag behind the head
  v_now   constant timestamptz := tidegate.clock();
  v_mark  bigint;
  v_due   timestamptz;
  v_dead  bigint;
  v_last  bigint;
  v_seen  bigint;
begin
  case p_queue
    -- each queue
    when 'QUEUE' then
      v_mark := coalesce(pg_sequence_last_value('tidegate.mark_QUEUE'), 0);
      select k.dead, k.last into v_dead, v_last from tidegate_internal.queue_numbers(p_queue) as k;
      if v_last + v_count > v_dead + p_high_water then
        return;
      end if;
      if v_last - v_mark < v_lag then
        v_due := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_QUEUE'), 0) / 1000000.0);
        select
          count(*),
          count(*) filter (where m.vt <= v_now) + case when v_mark > 1 then (
            select count(*)
            from (select d.msg_id from pgmq.q_QUEUE as d where d.vt > v_due and d.vt <= v_now order by d.vt limit v_few) as due
            where due.msg_id < v_mark
          ) else 0 end
        into v_seen, waiting
        from (select q.vt from pgmq.q_QUEUE as q where q.msg_id >= v_mark order by q.msg_id limit v_few) as m;
      end if;
      if v_seen < v_few is not true then
        waiting := tidegate_internal.waiting_before(p_queue, null, 0, v_now);
      end if;

      if v_count > 1 or pg_current_xact_id_if_assigned() is not null then
        perform tidegate_internal.announce_draw(p_queue, v_count, v_last);
      end if;
      numbers := array(select nextval('pgmq.q_QUEUE_msg_id_seq') from generate_series(1, v_count));
      fills := numbers[v_count] >= v_dead + p_high_water;
      if numbers[v_count] > v_dead + p_high_water then
        numbers := null;
        return;
      end if;
      insert into pgmq.q_QUEUE (msg_id, vt, message)
      overriding system value
      select m.msg_id, p_visible, jsonb_build_object('id', m.id)
      from unnest(p_ids, numbers) as m(id, msg_id);
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;

comment on function tidegate_internal.enter_queue is
  'Draws numbers for new requests and puts their messages into a queue, if its gate has room for all of them.';
