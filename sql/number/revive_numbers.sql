-- revive_numbers: Registers that dead numbers of a queue are about to live again: `recover` puts lost messages back,
-- holders of claims that were deleted by hand give requests back.
--
-- Registered first, as a draw; then the offset is lowered by as many, under the lock of `refresh_offset`, which ends at
-- once. The caller inserts afterwards.
create or replace function tidegate_internal.revive_numbers(p_queue text, p_count integer)
  returns void language plpgsql as $$
declare
  v_numbers record;
begin
  select * into v_numbers from tidegate_internal.queue_numbers(p_queue);
  perform tidegate_internal.register_draw(p_queue, p_count, v_numbers.last);
  begin
    perform pg_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'offset'));
    perform setval(q.counter, coalesce(pg_sequence_last_value(q.counter), 0) - p_count)
    from tidegate_internal.queue_counter(p_queue, 'offset') as q(counter);
    raise exception using errcode = 'TG999';
  exception when sqlstate 'TG999' then
    return;
  end;
end;
$$;
