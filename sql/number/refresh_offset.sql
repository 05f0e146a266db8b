-- refresh_offset: Counts the dead numbers of a queue: neither waiting, nor under a lease, nor drawn by an open
-- transaction.
--
-- Returns how many requests the queue holds, under a lease or not, or null if it did not count.
--
-- Three reads, each with a snapshot of its own, in this order: the last number, the open draws, the messages. A number
-- drawn before the first read was registered by its lock before: either the second sees the lock, or it was released
-- after the number became visible (or void), and the third decides. Counting one twice makes the gate only stricter. So
-- the offset never counts a live number, and a greater one is not replaced by a smaller; except with `p_replace`, for
-- `recover`: a dump that was restored may have an offset that is younger than its messages.
--
-- The lock ends with a block that raises, while `setval` stays: else it would last until the caller commits. `p_wait`
-- waits for a concurrent refresh; with `p_seen`, does nothing if the offset differs already. Does nothing above READ
-- COMMITTED, where a snapshot may be old, nor for a transaction that may have removed requests from the queue
-- (`has_removed`): it counts them as dead, and it may roll back.
create or replace function tidegate_internal.refresh_offset(
  p_queue text, p_wait boolean, p_seen bigint default null, p_replace boolean default false
)
  returns bigint language plpgsql as $$
declare
  v_key  constant bigint := tidegate.queue_lock_key(p_queue, 'offset');
  v_dead bigint;
  v_last bigint;
  v_open bigint;
  v_live bigint;
  v_mark bigint;
  v_from bigint;
  v_due  timestamptz;
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    return null;
  end if;
  begin
    if p_wait then
      perform pg_advisory_xact_lock(v_key);
    elsif not pg_try_advisory_xact_lock(v_key) then
      return null;
    end if;
    select k.dead, k.last into v_dead, v_last from tidegate_internal.queue_numbers(p_queue) as k;
    if v_dead = p_seen is not false then
      v_open := tidegate_internal.open_draws(p_queue);
      case p_queue
        -- each queue
        when 'QUEUE' then
          v_mark := coalesce(pg_sequence_last_value('tidegate.watermark_QUEUE'), 0);
          v_from := least(v_mark, coalesce(pg_sequence_last_value('tidegate.closed_draws_QUEUE'), 0) + 1);
          v_due := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_watermark_QUEUE'), 0) / 1000000.0);
          select
            (select count(*) from pgmq.q_QUEUE as m where m.msg_id >= v_from and m.msg_id <= v_last)
            + (
              select count(*)
              from (
                select m.msg_id
                from pgmq.q_QUEUE as m
                where v_from > 1 and m.vt > '-infinity' and m.vt > v_due
                order by m.vt
                offset 0
              ) as d
              where d.msg_id < v_from
            )
            + tidegate_internal.leased_count(p_queue, v_last)
          into v_live;
          if coalesce(pg_sequence_last_value('tidegate.watermark_QUEUE'), 0) <> v_mark then
            -- A message put back in between may lie below: the count is void.
            v_live := null;
          elsif (p_replace or v_last - v_live - v_open > v_dead)
            and not tidegate_internal.has_removed(p_queue)
          then
            perform setval('tidegate.offset_QUEUE', v_last - v_live - v_open);
          end if;
        -- end of each queue
      end case;
    end if;
    raise exception using errcode = 'TG999';
  exception when sqlstate 'TG999' then
    return v_live;
  end;
end;
$$;
select tidegate_internal.plan_along_indexes('refresh_offset');
