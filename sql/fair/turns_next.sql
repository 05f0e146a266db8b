-- turns_next: Since when a message of a fair queue may be taken, or from when on; null: none is known.
create or replace function tidegate_internal.turns_next(p_queue text, p_now timestamptz)
  returns timestamptz language plpgsql stable as $$
declare
  v_due timestamptz;
begin
  if tidegate_internal.turns_wait(p_queue, p_now) then
    return p_now;
  end if;
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_due := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_watermark_QUEUE'), 0) / 1000000.0);
      return (
        select a.at from tidegate.arrival_QUEUE as a where a.urgent and a.at > v_due order by a.at limit 1
      );
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('turns_next', 'sort');
