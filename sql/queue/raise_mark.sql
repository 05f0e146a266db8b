-- raise_mark: moves a queue's low-water mark up to shortly below `p_first`, when nothing waits between
--
-- Called by a claim that had to walk far to its first message. The slack covers numbers drawn by submissions that
-- have not committed yet; one that commits later still is found by `rescan_queue`. Skipped when somebody else is
-- moving the mark: the next claim tries again.
create or replace function tidegate_internal.raise_mark(p_queue text, p_first bigint, p_slack integer default 2000)
  returns void
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
  v_counter regclass := tidegate_internal.queue_counter(p_queue, 'mark');
  v_mark    bigint;
  v_waiting bigint;
begin
  if not pg_try_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'mark')) then
    return;
  end if;

  v_mark := coalesce(pg_sequence_last_value(v_counter), 0);
  case p_queue
    -- each queue
    when 'QUEUE' then
      select m.msg_id into v_waiting
      from pgmq.q_QUEUE as m
      where m.msg_id >= v_mark and m.msg_id < p_first and m.vt = '-infinity'
      order by m.msg_id
      limit 1;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;

  v_mark := greatest(v_mark, least(coalesce(v_waiting, p_first), p_first) - p_slack);
  if v_mark > 0 then
    perform setval(v_counter, v_mark);
  end if;
end;
$$;

comment on function tidegate_internal.raise_mark is 'Moves a queue''s low-water mark up, when nothing waits below.';
