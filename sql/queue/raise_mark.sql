-- raise_mark: moves a queue's low-water mark up to the first message that waits, and below every number still open
--
-- With `p_kinds`, the marks of these kinds (`kind_mark`), beyond messages of others.
--
-- Called by a claim that had to walk far to its first message. A number that an open transaction has drawn may become a message
-- later, so a mark passes only numbers whose transactions have ended: all, while none is open; else those that were drawn when
-- an earlier call noted the last number and the next transaction id, once no transaction before that id holds a draw. Claims
-- must not slow down without end while one stays open: the queue's mark passes its numbers when `v_reach` others have been
-- drained, and `rescan_queue` finds what commits there. Skipped when somebody else is moving a mark: the next claim tries again.
create or replace function tidegate_internal.raise_mark(p_queue text, p_first bigint, p_kinds text[] default null)
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
  v_reach      constant bigint := 100000;
  v_counter    regclass := tidegate_internal.queue_counter(p_queue, 'mark');
  v_noted      regclass := tidegate_internal.queue_counter(p_queue, 'noted');
  v_noted_xact regclass := tidegate_internal.queue_counter(p_queue, 'noted_xact');
  v_mark       bigint;
  v_last       bigint;
  v_oldest     bigint;
  v_next       bigint;
  v_before     bigint;
  v_ended      bigint;
  v_waiting    bigint;
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted')
    or not pg_try_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'mark'))
  then
    return;
  end if;

  -- In this order, each with a look of its own.
  v_last := (select k.last from tidegate_internal.queue_numbers(p_queue) as k);
  v_oldest := tidegate_internal.oldest_draw(p_queue);
  v_next := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
  v_before := coalesce(pg_sequence_last_value(v_noted_xact), 0);
  if v_oldest is null then
    v_ended := v_last;
  elsif v_oldest >= v_before then
    v_ended := least(coalesce(pg_sequence_last_value(v_noted), 0), v_last);
  end if;
  -- Of a restored dump, the noted id may be one of the future. A crash may lose the second `setval` alone, not the first.
  if v_oldest > 0 and (v_ended is not null or v_before > v_next) then
    perform setval(v_noted_xact, v_next);
    perform setval(v_noted, greatest(v_last, 1));
  end if;

  v_mark := greatest(
    coalesce(pg_sequence_last_value(v_counter), 0),
    case when p_kinds is not null then tidegate_internal.kinds_mark(p_queue, p_kinds) end
  );
  v_ended := least(p_first - 1, greatest(v_ended, case when p_kinds is null then p_first - v_reach else 0 end));
  case p_queue
    -- each queue
    when 'QUEUE' then
      select m.msg_id into v_waiting
      from pgmq.q_QUEUE as m
      where m.msg_id >= v_mark and m.msg_id <= v_ended and m.vt = '-infinity' and (p_kinds is null or (
        select r.kind = any(p_kinds) from tidegate.request as r where r.id = tidegate.message_request_id(m.message)
      ) is not false)
      order by m.msg_id
      limit 1;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;

  v_ended := coalesce(v_waiting - 1, v_ended);
  if v_ended < v_mark then
    return;
  end if;
  if p_kinds is null then
    perform setval(v_counter, v_ended + 1);
  else
    insert into tidegate.kind_mark as m (queue, kind, mark)
    select p_queue, k.name, v_ended + 1 from tidegate.kind as k where k.name = any(p_kinds)
    on conflict on constraint kind_mark_pkey do update set mark = excluded.mark where m.mark < excluded.mark;
  end if;
end;
$$;

comment on function tidegate_internal.raise_mark is
  'Moves a queue''s low-water mark up to the first message that waits, and below every number still open.';
