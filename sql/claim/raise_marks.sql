-- raise_marks: raises the marks of a queue past messages that a claim has not taken: other kinds, and what is put off
--
-- The claim began at `p_from` (`p_mark` is the queue's mark), took `p_first` and what is behind it, and, with `p_all`, all that
-- it found. The queue's mark passes nothing that this claim took by number, because it may roll back.
create or replace function tidegate_internal.raise_marks(
  p_queue text, p_kinds text[], p_now timestamptz, p_mark bigint, p_from bigint, p_first bigint, p_all boolean, p_step integer
)
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
  v_next    constant bigint := (tidegate_internal.queue_numbers(p_queue)).last + 1;
  v_waiting bigint;
begin
  if p_kinds is not null and coalesce(p_first, case when p_all then v_next end) - p_from > p_step then
    perform tidegate_internal.raise_mark(p_queue, coalesce(p_first, v_next), p_kinds);
  end if;
  case p_queue
    -- each queue
    when 'QUEUE' then
      v_waiting := (
        select m.msg_id from pgmq.q_QUEUE as m where m.msg_id >= p_mark and m.vt <= p_now order by m.msg_id limit 1
      );
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
  v_waiting := least(p_first, coalesce(v_waiting, v_next));
  if v_waiting - p_mark > p_step then
    perform tidegate_internal.raise_mark(p_queue, v_waiting);
  end if;
end;
$$;

comment on function tidegate_internal.raise_marks is
  'Raises the marks of a queue past messages that a claim has not taken: other kinds, and what is put off.';
