-- watermarks_advance: Raises the watermarks of a queue past the messages that a claim has taken or skipped.
--
-- Last in a claim: it holds the watermarks' lock to its end, and waits for no row under it. The claim took `p_taken`
-- (see `take_messages`), up to `p_limit` requests of `p_kinds`. A claim of some kinds skips messages of other kinds,
-- and one that found nothing skips snoozed ones. The queue's watermark passes nothing that this claim took by number,
-- because it may roll back.
create or replace function tidegate_internal.watermarks_advance(
  p_queue text, p_limit integer, p_kinds text[], p_now timestamptz, p_taken record
)
  returns void language plpgsql as $$
declare
  v_step       constant bigint := 4000;
  v_due_step   constant interval := '200 milliseconds';
  v_reap_slack constant interval := '10 seconds';
  -- A little behind the present: a message put back a moment ago may not have been committed yet.
  v_due_to     constant timestamptz := least(p_taken.due_to, p_now - interval '100 milliseconds');
  v_count      constant integer := coalesce(cardinality(p_taken.ids), 0);
  v_reaped     timestamptz;
  v_due        regclass;
  v_next       bigint;
  v_waiting    bigint;
begin
  case p_queue
    -- each queue
    when 'QUEUE' then
      v_reaped := to_timestamp(coalesce(pg_sequence_last_value('tidegate.reaped_QUEUE'), 0) / 1000000.0);
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
  -- While an old snapshot is held, claims that have ended stay in their index, and each later claim would walk over all
  -- of them. `rescan_queue` finds a lease that appears so late, or that this transaction has reaped and does not
  -- commit.
  if p_now - v_reaped > v_reap_slack + v_due_step
    and pg_try_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'watermark'))
  then
    perform setval(
      tidegate_internal.queue_counter(p_queue, 'reaped'), (extract(epoch from p_now - v_reap_slack) * 1000000)::bigint
    )
    where not exists (
      select from tidegate.claim as c
      where c.queue = p_queue and c.until > tidegate_internal.reaped_until(p_queue) and c.until <= p_now - v_reap_slack
    );
  end if;
  -- Requests of a lease that ran out were no messages.
  if p_taken.reaped then
    return;
  end if;

  if v_count > 0 and v_due_to - p_taken.due_from > v_due_step then
    v_due := tidegate_internal.queue_counter(p_queue, 'due');
    if pg_try_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'watermark')) then
      perform setval(v_due, greatest((extract(epoch from v_due_to) * 1000000)::bigint, pg_sequence_last_value(v_due)));
    end if;
  end if;
  if p_kinds is null and v_count > 0 then
    if p_taken.first - p_taken.mark > v_step then
      perform tidegate_internal.watermark_advance(p_queue, p_taken.first);
    end if;
    return;
  end if;

  v_next := (tidegate_internal.queue_numbers(p_queue)).last + 1;
  if p_kinds is not null
    and coalesce(p_taken.first, case when v_count < p_limit then v_next end) - p_taken.start > v_step
  then
    perform tidegate_internal.watermark_advance(p_queue, coalesce(p_taken.first, v_next), p_kinds);
  end if;
  if v_next - p_taken.mark <= v_step then
    return;
  end if;
  case p_queue
    -- each queue
    when 'QUEUE' then
      v_waiting := (
        select m.msg_id
        from pgmq.q_QUEUE as m
        where m.msg_id >= p_taken.mark and m.vt <= p_now
        order by m.msg_id
        limit 1
      );
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
  v_waiting := least(p_taken.first, coalesce(v_waiting, v_next));
  if v_waiting - p_taken.mark > v_step then
    perform tidegate_internal.watermark_advance(p_queue, v_waiting);
  end if;
end;
$$;
