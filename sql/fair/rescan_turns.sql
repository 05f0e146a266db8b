-- rescan_turns: Maintenance: finds what the marks of a fair queue hide: rows of its journal that committed below the
-- marks of their sort, and turns that are ready before the first one; returns how many.
--
-- A wrong mark delays requests and loses none.
create or replace function tidegate_internal.rescan_turns(p_queue text)
  returns bigint language plpgsql as $$
declare
  v_now_us constant bigint := (extract(epoch from tidegate.clock()) * 1000000)::bigint;
  v_found  bigint := 0;
  v_first  record;
  v_at     timestamptz;
begin
  perform pg_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'turns'));
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      select t.tag, t.no into v_first
      from tidegate.turn_QUEUE as t
      where (t.tag, t.no) < (
        coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0),
        coalesce(pg_sequence_last_value('tidegate.ready_no_QUEUE'), 0)
      ) and t.idle_at is null
      order by t.tag, t.no
      limit 1;
      if found then
        perform setval('tidegate.ready_no_QUEUE', 0);
        perform setval('tidegate.ready_tag_QUEUE', v_first.tag);
        v_found := v_found + 1;
      end if;
      v_at := (select a.at from tidegate.arrival_QUEUE as a where a.urgent order by a.at limit 1);
      if v_at <= to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_watermark_QUEUE'), 0) / 1000000.0) then
        perform setval(
          'tidegate.due_watermark_QUEUE', least(v_now_us - 100000, (extract(epoch from v_at) * 1000000)::bigint - 1)
        );
        v_found := v_found + 1;
      end if;
      v_at := (select a.at from tidegate.arrival_QUEUE as a where not a.urgent order by a.at limit 1);
      if v_at <= to_timestamp(coalesce(pg_sequence_last_value('tidegate.folded_QUEUE'), 0) / 1000000.0) then
        perform setval(
          'tidegate.folded_QUEUE', least(v_now_us - 100000, (extract(epoch from v_at) * 1000000)::bigint - 1)
        );
        v_found := v_found + 1;
      end if;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
  return v_found;
end;
$$;
select tidegate_internal.plan_along_indexes('rescan_turns', 'sort');
