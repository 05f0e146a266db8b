-- watermarks_pass_skipped: Raises the watermarks of a queue past the messages that a claim has skipped, where they are
-- more than `p_step`.
--
-- A claim of some kinds skips messages of other kinds, and one that found nothing skips snoozed ones (`p_limits` of
-- `claim_limits`, `p_taken` of `take_messages`). The queue's watermark passes nothing that this claim took by number,
-- because it may roll back.
create or replace function tidegate_internal.watermarks_pass_skipped(
  p_queue text, p_step bigint, p_limits record, p_taken record
)
  returns void language plpgsql as $$
declare
  v_next    constant bigint := (tidegate_internal.queue_numbers(p_queue)).last + 1;
  v_waiting bigint;
begin
  if p_limits.kinds is not null and p_taken.start + p_step < coalesce(
    p_taken.first, case when coalesce(cardinality(p_taken.ids), 0) < p_limits.batch then v_next end
  ) then
    perform tidegate_internal.watermark_advance(p_queue, coalesce(p_taken.first, v_next), p_limits.kinds);
  end if;
  if v_next - p_taken.mark <= p_step then
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
  if v_waiting - p_taken.mark > p_step then
    perform tidegate_internal.watermark_advance(p_queue, v_waiting);
  end if;
end;
$$;
