-- move_passed: Moves keys that a claim has passed up to the virtual time of the others: a message that is locked must
-- not hold virtual time back for keys that become active then. The caller holds the lock `turns`.
--
-- If all keys that wait were passed, that is the largest tag that the claim has served (`p_served_to`): some of them
-- may have been served before they were passed.
create or replace function tidegate_internal.move_passed(p_queue text, p_keys bigint[], p_served_to bigint)
  returns void language plpgsql as $$
declare
  v_tag  bigint;
  v_no   bigint;
  v_time bigint;
begin
  if p_keys = '{}' then
    return;
  end if;
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_tag := coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0);
      v_no := coalesce(pg_sequence_last_value('tidegate.ready_no_QUEUE'), 0);
      v_time := coalesce(
        (
          select t.tag
          from tidegate.turn_QUEUE as t
          where (t.tag, t.no) >= (v_tag, v_no) and t.idle_at is null and t.key <> all(p_keys)
          order by t.tag, t.no
          limit 1
        ),
        greatest(p_served_to, (
          select t.tag
          from tidegate.turn_QUEUE as t
          where t.idle_at is not null and t.tag >= v_tag and t.tag < tidegate_internal.paused_tags()
          order by t.tag desc
          limit 1
        ))
      );
      update tidegate.turn_QUEUE as t
      set tag = v_time, no = nextval('tidegate.last_turn_QUEUE')
      where t.key = any(p_keys) and t.tag >= v_tag and t.tag < v_time and t.idle_at is null;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('move_passed', 'sort');
