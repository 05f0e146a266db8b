-- due_watermark_advance: Says that every message which came due before `p_at` has been dealt with.
--
-- The caller has just seen that none is left before it, and stays a little behind the present, because a message given
-- back a moment ago may not have been committed yet. `rescan_queue` lowers the mark when one was left behind.
create or replace function tidegate_internal.due_watermark_advance(p_queue text, p_at timestamptz)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_counter regclass := tidegate_internal.queue_counter(p_queue, 'due');
  v_due_us  bigint := (extract(epoch from p_at) * 1000000)::bigint;
begin
  if pg_try_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'watermark'))
    and v_due_us > coalesce(pg_sequence_last_value(v_counter), 0)
  then
    perform setval(v_counter, v_due_us);
  end if;
end;
$$;
