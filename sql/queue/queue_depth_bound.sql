-- queue_depth_bound: an upper bound of how many messages a queue holds, by their numbers
--
-- From the first message to the last number drawn, and what is held or put off below the low-water mark; if that is much,
-- from the very first. `waiting`: how many of them may be taken now, if there are few enough to count; else null.
create or replace function tidegate_internal.queue_depth_bound(p_queue text, out bound bigint, out waiting bigint)
  language plpgsql
  stable
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones, too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set enable_sort = off
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_few  constant integer := 256;
  v_many constant integer := 500;
  v_last bigint;
  v_mark bigint;
  v_due  timestamptz;
  v_now  constant timestamptz := tidegate.clock();
begin
  bound := 0;
  waiting := 0;
  case p_queue
    -- each queue
    when 'QUEUE' then
      -- Its table may have been dropped.
      if to_regclass('pgmq.q_QUEUE') is null then
        return;
      end if;
      v_last := coalesce(pg_sequence_last_value('pgmq.q_QUEUE_msg_id_seq'), 0);
      v_mark := coalesce(pg_sequence_last_value('tidegate.mark_QUEUE'), 0);
      v_due := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_QUEUE'), 0) / 1000000.0);
      select
        case when look.later < v_many then look.above + look.below
          else v_last + 1 - (select m.msg_id from pgmq.q_QUEUE as m order by m.msg_id limit 1) end,
        case when look.below = 0 and look.above <= v_few then (
          select count(*) filter (where few.vt <= v_now)
          from (select m.vt from pgmq.q_QUEUE as m where m.msg_id > v_last - look.above order by m.msg_id limit v_few) as few
        ) end
      into bound, waiting
      from (
        select
          greatest(v_last + 1 - (
            select m.msg_id from pgmq.q_QUEUE as m where m.msg_id >= v_mark order by m.msg_id limit 1
          ), 0) as above,
          count(*) as later, count(*) filter (where d.msg_id < v_mark) as below
        from (select m.msg_id from pgmq.q_QUEUE as m where v_mark > 1 and m.vt > v_due order by m.vt limit v_many) as d
      ) as look;
    -- end of each queue
    else null;
  end case;
end;
$$;

comment on function tidegate_internal.queue_depth_bound is 'At most so many messages are in a queue; cheap at any depth.';
