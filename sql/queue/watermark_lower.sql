-- watermark_lower: Lowers the watermarks of a queue to a message that waits again; the caller holds the watermark's
-- lock.
--
-- Above READ COMMITTED it may not see the kinds' watermarks, so it makes all of them void.
create or replace function tidegate_internal.watermark_lower(p_queue text, p_first bigint)
  returns void language plpgsql as $$
begin
  perform setval(q.mark, greatest(p_first, 1))
  from tidegate_internal.queue_counter(p_queue, 'watermark') as q(mark)
  where p_first < pg_sequence_last_value(q.mark);
  if current_setting('transaction_isolation') in ('read committed', 'read uncommitted') then
    update tidegate.kind_watermark as m set mark = p_first where m.queue = p_queue and m.mark > p_first;
  else
    perform nextval(tidegate_internal.queue_counter(p_queue, 'epoch'));
  end if;
end;
$$;
