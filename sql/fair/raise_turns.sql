-- raise_turns: Moves the marks of a fair queue up to its first ready turn. The caller holds the lock `turns`, and has
-- changed no turn in this transaction but for new ones.
--
-- While an old snapshot is held, every turn that was served stays in the index as a dead entry, before the marks. Three
-- writes: a crash between two must not leave a new tag with an old number.
create or replace function tidegate_internal.raise_turns(p_queue text)
  returns void language plpgsql as $$
declare
  v_tag   bigint;
  v_no    bigint;
  v_first record;
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_tag := coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0);
      v_no := coalesce(pg_sequence_last_value('tidegate.ready_no_QUEUE'), 0);
      select t.tag, t.no into v_first
      from tidegate.turn_QUEUE as t
      where (t.tag, t.no) >= (v_tag, v_no) and t.idle_at is null
      order by t.tag, t.no
      limit 1;
      if v_first.tag > v_tag then
        perform setval('tidegate.ready_no_QUEUE', 0);
        perform setval('tidegate.ready_tag_QUEUE', v_first.tag);
      end if;
      if (v_first.tag, v_first.no) <> (v_tag, v_no) then
        perform setval('tidegate.ready_no_QUEUE', v_first.no);
      end if;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('raise_turns', 'sort');
