-- raise_mark: moves a queue's low-water mark up to shortly below `p_first`, when nothing waits between
--
-- Called by a claim that had to walk far to its first message. The slack covers numbers drawn by submissions that
-- have not committed yet; one that commits later still is found by `rescan_queue`. Skipped when somebody else is
-- moving the mark: the next claim tries again.
create or replace function tidegate_internal.raise_mark(p_queue text, p_first bigint, p_slack integer default 2000)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_counter regclass := tidegate_internal.queue_counter(p_queue, 'mark');
  v_mark    bigint;
  v_waiting bigint;
begin
  if not pg_try_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'mark')) then
    return;
  end if;

  v_mark := coalesce(pg_sequence_last_value(v_counter), 0);
  execute format(
    $sql$ select msg_id from %s where msg_id >= $1 and msg_id < $2 and vt = '-infinity' order by msg_id limit 1 $sql$,
    tidegate_internal.queue_table(p_queue)
  ) into v_waiting using v_mark, p_first;

  v_mark := greatest(v_mark, least(coalesce(v_waiting, p_first), p_first) - p_slack);
  if v_mark > 0 then
    perform setval(v_counter, v_mark);
  end if;
end;
$$;

comment on function tidegate_internal.raise_mark is 'Moves a queue''s low-water mark up, when nothing waits below.';
