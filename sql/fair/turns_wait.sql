-- turns_wait: Whether a message of a fair queue may be taken now: a turn is ready, or the journal has an urgent row
-- that is due.
create or replace function tidegate_internal.turns_wait(p_queue text, p_now timestamptz)
  returns boolean language plpgsql stable as $$
declare
  v_due    timestamptz;
  v_folded timestamptz;
  v_tag    bigint;
  v_no     bigint;
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_due := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_watermark_QUEUE'), 0) / 1000000.0);
      v_folded := to_timestamp(coalesce(pg_sequence_last_value('tidegate.folded_QUEUE'), 0) / 1000000.0);
      v_tag := coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0);
      v_no := coalesce(pg_sequence_last_value('tidegate.ready_no_QUEUE'), 0);
      return exists (
        select from tidegate.turn_QUEUE as t where (t.tag, t.no) >= (v_tag, v_no) and t.idle_at is null
      ) or exists (
        select from tidegate.arrival_QUEUE as a where a.urgent and a.at > v_due and a.at <= p_now
      ) or exists (
        -- Its key may have become idle since it was seen.
        select
        from tidegate.arrival_QUEUE as a
        where not a.urgent and a.first is not null and a.at > v_folded and a.at <= p_now
      );
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('turns_wait', 'sort');
