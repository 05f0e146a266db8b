-- watermark_lower: Lowers the watermarks and the head of a queue, and the watermarks of its kinds, to a message that
-- was put back, or found below them (`p_found`).
--
-- The calling function holds the queue's advisory lock `watermark`. Above READ COMMITTED the snapshot is older than
-- that lock, so rows of `kind_watermark` may be missing from it. Then the queue's epoch is advanced, which voids all
-- rows of an earlier epoch (`kinds_watermark`); so it is for a message that was found, because it stays there when this
-- transaction rolls back, which would raise the watermarks of kinds again.
create or replace function tidegate_internal.watermark_lower(
  p_queue text, p_msg_id bigint, p_found boolean default false
)
  returns void language plpgsql as $$
begin
  perform setval(q.counter, greatest(p_msg_id, 1))
  from unnest(array['watermark', 'first_waiting']) as c(name)
  cross join lateral tidegate_internal.queue_counter(p_queue, c.name) as q(counter)
  where p_msg_id < pg_sequence_last_value(q.counter);
  if not p_found and current_setting('transaction_isolation') in ('read committed', 'read uncommitted') then
    update tidegate.kind_watermark as w set mark = p_msg_id where w.queue = p_queue and w.mark > p_msg_id;
  else
    perform nextval(tidegate_internal.queue_counter(p_queue, 'epoch'));
  end if;
end;
$$;
