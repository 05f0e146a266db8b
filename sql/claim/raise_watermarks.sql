-- raise_watermarks: Raises the watermarks of a queue past messages that a claim has taken or skipped, if that moves
-- them by 4,000 numbers, or 200 ms of visibility times (`p_limits` of `claim_limits`, `p_taken` of `take_messages`).
--
-- A claim of some kinds skips messages of other kinds, and one that found nothing skips snoozed ones. The queue's
-- watermark passes nothing that this claim took by number, because it may roll back.
create or replace function tidegate_internal.raise_watermarks(
  p_queue text, p_limits tidegate.claim_limits, p_taken tidegate.taken_messages
)
  returns void language plpgsql as $$
declare
  v_step    constant bigint := 4000;
  -- A little behind the present: a message put back a moment ago may not have been committed yet.
  v_due_to  constant timestamptz := least(p_taken.due_to, p_limits.now - interval '100 milliseconds');
  v_due     regclass;
  v_next    bigint;
  v_waiting bigint;
begin
  if p_taken.ids is not null and v_due_to - p_taken.due_from > interval '200 milliseconds'
    and pg_try_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'watermark'))
  then
    v_due := tidegate_internal.queue_counter(p_queue, 'due_watermark');
    perform setval(
      v_due, greatest((extract(epoch from v_due_to) * 1000000)::bigint, pg_sequence_last_value(v_due))
    );
  end if;
  if p_taken.ids is not null and p_limits.kinds is null then
    if p_taken.first - p_taken.mark > v_step then
      perform tidegate_internal.watermark_advance(p_queue, p_taken.first);
    end if;
    return;
  end if;

  v_next := (tidegate_internal.queue_numbers(p_queue)).last + 1;
  if p_limits.kinds is not null and p_taken.start + v_step < coalesce(
    p_taken.first, case when coalesce(cardinality(p_taken.ids), 0) < p_limits.batch then v_next end
  ) then
    perform tidegate_internal.watermark_advance(p_queue, coalesce(p_taken.first, v_next), p_limits.kinds);
  end if;
  -- A claim of a fair queue has no mark.
  if v_next - p_taken.mark > v_step is not true then
    return;
  end if;
  case p_queue
    -- each queue
    when 'QUEUE' then
      v_waiting := (
        select m.msg_id
        from pgmq.q_QUEUE as m
        where m.msg_id >= p_taken.mark and m.vt <= p_limits.now
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
