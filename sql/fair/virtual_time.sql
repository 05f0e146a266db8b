-- virtual_time: The virtual time of a fair queue: the tag of the first ready turn; while none is ready, the largest tag
-- that is remembered.
--
-- Without the second half, a key that had the queue to itself would pay for it later: others would be served first
-- until they have caught up. Only a repair sets it back.
create or replace function tidegate_internal.virtual_time(p_queue text)
  returns bigint language plpgsql as $$
declare
  v_tag bigint;
  v_no  bigint;
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_tag := coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0);
      v_no := coalesce(pg_sequence_last_value('tidegate.ready_no_QUEUE'), 0);
      return greatest(v_tag, coalesce(
        (
          select t.tag
          from tidegate.turn_QUEUE as t
          where (t.tag, t.no) >= (v_tag, v_no) and t.idle_at is null
          order by t.tag, t.no
          limit 1
        ),
        -- From the mark on, too: what has been forgotten stays in the index while an old snapshot is held.
        (
          select t.tag
          from tidegate.turn_QUEUE as t
          where t.idle_at is not null and t.tag >= v_tag and t.tag < tidegate_internal.paused_tags()
          order by t.tag desc
          limit 1
        )
      ));
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('virtual_time', 'sort');
