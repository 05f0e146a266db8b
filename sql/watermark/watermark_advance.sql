-- watermark_advance: Raises a queue's watermark up to the first message that waits.
--
-- With `p_kinds`, the watermarks of these kinds (`kind_watermark`), which pass messages of others.
--
-- Called by a claim that had to walk far to its first message. A number that an open transaction has drawn may become a
-- message later, so first it finds up to which number all drawing transactions have ended (counter `closed_draws`): to
-- the last one, while none is open; else to the last one of an earlier call (`snapshot_number`), once no transaction is
-- open that was open then. A watermark passes no number beyond that. But claims must not slow down without end while
-- one stays open: the queue's watermark passes its numbers when `v_reach` others have been drained, and the gate counts
-- from `closed_draws` on. Before `closed_draws` passes them, too, the watermark is lowered to a message that has
-- committed there; `rescan_queue` may find it earlier. Skipped while another session moves a watermark: the next claim
-- tries again.
create or replace function tidegate_internal.watermark_advance(
  p_queue text, p_first bigint, p_kinds text[] default null
)
  returns void language plpgsql as $$
declare
  v_reach   constant bigint := 4000;
  v_closed  constant regclass := tidegate_internal.queue_counter(p_queue, 'closed_draws');
  v_number  constant regclass := tidegate_internal.queue_counter(p_queue, 'snapshot_number');
  v_xid     constant regclass := tidegate_internal.queue_counter(p_queue, 'snapshot_xid');
  v_before  bigint;
  v_last    bigint;
  v_draws   record;
  v_next    bigint;
  v_known   bigint;
  v_mark    bigint;
  v_to      bigint;
  v_waiting bigint;
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted')
    or not pg_try_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'watermark'))
  then
    return;
  end if;

  -- Under the lock, and in this order, each with a snapshot of its own. An ended draw stays ended, unless the sequence
  -- has been set back.
  v_last := (select k.last from tidegate_internal.queue_numbers(p_queue) as k);
  v_draws := tidegate_internal.drawing_transactions(p_queue);
  v_next := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
  v_before := coalesce(pg_sequence_last_value(v_xid), 0);
  v_known := coalesce(pg_sequence_last_value(v_closed), 0);
  v_to := case when v_known <= v_last then v_known else 0 end;
  if v_draws.oldest is null then
    v_to := v_last;
  elsif v_draws.oldest >= v_before then
    v_to := greatest(v_to, least(coalesce(pg_sequence_last_value(v_number), 0), v_last));
  end if;
  -- Of a restored dump, the recorded id may be one of the future. A crash may lose the second `setval` alone, not the
  -- first.
  if v_draws.oldest > 0 and (v_draws.oldest >= v_before or v_before > greatest(v_next, v_draws.newest + 1)) then
    perform setval(v_xid, v_draws.newest + 1);
    perform setval(v_number, greatest(v_last, 1));
  end if;
  v_mark := coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'watermark')), 0);
  if v_to <> v_known then
    -- Nothing was below the watermark when it passed these numbers, and something may have committed there since.
    case p_queue
      -- each queue
      when 'QUEUE' then
        select m.msg_id into v_waiting
        from pgmq.q_QUEUE as m
        where m.msg_id > v_known and m.msg_id < v_mark and m.msg_id <= v_to and m.vt = '-infinity'
        order by m.msg_id
        limit 1;
      -- end of each queue
      else perform tidegate_internal.refuse_queue(p_queue);
    end case;
    if v_waiting is not null then
      perform tidegate_internal.watermark_lower(p_queue, v_waiting, p_found => true);
      v_mark := v_waiting;
    end if;
    perform setval(v_closed, v_to);
  end if;

  v_mark := greatest(
    v_mark,
    case when p_kinds is not null then tidegate_internal.kinds_watermark(p_queue, p_kinds) end
  );
  v_to := least(p_first - 1, greatest(v_to, case when p_kinds is null then p_first - v_reach else 0 end));
  case p_queue
    -- each queue
    when 'QUEUE' then
      select m.msg_id into v_waiting
      from pgmq.q_QUEUE as m
      where m.msg_id >= v_mark and m.msg_id <= v_to and m.vt = '-infinity'
        and (p_kinds is null or tidegate_internal.is_of_kinds(m.message, p_kinds))
      order by m.msg_id
      limit 1;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;

  v_to := coalesce(v_waiting - 1, v_to);
  if v_to < v_mark then
    return;
  end if;
  if p_kinds is null then
    perform setval(tidegate_internal.queue_counter(p_queue, 'watermark'), v_to + 1);
  else
    insert into tidegate.kind_watermark as m (queue, kind, mark, epoch)
    select p_queue, k.name, v_to + 1,
      coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'epoch')), 0)
    from tidegate.kind as k
    where k.name = any(p_kinds)
    on conflict on constraint kind_watermark_pkey do update
    set mark = excluded.mark, epoch = excluded.epoch
    where m.epoch <> excluded.epoch or m.mark < excluded.mark;
  end if;
end;
$$;
select tidegate_internal.plan_along_indexes('watermark_advance', 'sort');
