-- turns_head: A number that changes at each service of a fair queue, and grows with its virtual time; null: no turn is
-- ready.
create or replace function tidegate_internal.turns_head(p_queue text)
  returns bigint language plpgsql stable as $$
declare
  v_tag bigint;
  v_no  bigint;
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_tag := coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0);
      v_no := coalesce(pg_sequence_last_value('tidegate.ready_no_QUEUE'), 0);
      return (
        select t.tag + t.no
        from tidegate.turn_QUEUE as t
        where (t.tag, t.no) >= (v_tag, v_no) and t.idle_at is null
        order by t.tag, t.no
        limit 1
      );
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('turns_head', 'sort');
