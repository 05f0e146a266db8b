-- rescan_turns: Maintenance: finds what the marks of a fair queue hide, and lowers them to it: rows of its journal that
-- committed below the marks of their sort, and turns that are ready before the first one.
--
-- A wrong mark delays requests and loses none. After the clock was set back, marks and rows lie in the future: rows of
-- messages that may be taken at once are moved to now.
--
-- It searches before it takes the lock `turns`: while an old snapshot is held, the search reads all that claims have
-- left below the marks.
create or replace function tidegate_internal.rescan_turns(p_queue text)
  returns void language plpgsql as $$
declare
  v_now    constant timestamptz := tidegate.clock();
  v_now_us constant bigint := (extract(epoch from v_now) * 1000000)::bigint;
  v_tag    bigint;
  v_no     bigint;
  v_due    bigint;
  v_folded bigint;
  v_first  record;
  v_urgent timestamptz;
  v_quiet  timestamptz;
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_tag := coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0);
      v_no := coalesce(pg_sequence_last_value('tidegate.ready_no_QUEUE'), 0);
      v_due := coalesce(pg_sequence_last_value('tidegate.due_watermark_QUEUE'), 0);
      v_folded := coalesce(pg_sequence_last_value('tidegate.folded_QUEUE'), 0);
      select t.tag, t.no into v_first
      from tidegate.turn_QUEUE as t
      where (t.tag, t.no) < (v_tag, v_no) and t.idle_at is null
      order by t.tag, t.no
      limit 1;
      v_urgent := (
        select a.at
        from tidegate.arrival_QUEUE as a
        where a.urgent and a.at <= to_timestamp(v_due / 1000000.0)
        order by a.at
        limit 1
      );
      v_quiet := (
        select a.at
        from tidegate.arrival_QUEUE as a
        where not a.urgent and a.at <= to_timestamp(v_folded / 1000000.0)
        order by a.at
        limit 1
      );
      if v_first.tag is null and v_urgent is null and v_quiet is null and greatest(v_due, v_folded) <= v_now_us then
        return;
      end if;

      perform pg_advisory_xact_lock(tidegate.queue_lock_key(p_queue, 'turns'));
      if v_first.tag is not null then
        perform setval('tidegate.ready_no_QUEUE', 0);
        perform setval('tidegate.ready_tag_QUEUE', least(
          v_first.tag, pg_sequence_last_value('tidegate.ready_tag_QUEUE')
        ));
      end if;
      if v_urgent is not null or v_due > v_now_us then
        perform setval('tidegate.due_watermark_QUEUE', least(
          v_now_us - 100000, (extract(epoch from v_urgent) * 1000000)::bigint - 1
        ));
      end if;
      if v_quiet is not null or v_folded > v_now_us then
        perform setval('tidegate.folded_QUEUE', least(
          v_now_us - 100000, (extract(epoch from v_quiet) * 1000000)::bigint - 1
        ));
      end if;
      if greatest(v_due, v_folded) > v_now_us then
        update tidegate.arrival_QUEUE as a
        set at = v_now
        where a.at > v_now and exists (
          select
          from pgmq.q_QUEUE as q
          where (q.fair_key, q.msg_id) >= (a.key, a.first) and q.fair_key <= a.key and q.vt = '-infinity'
        ) and not exists (
          select from pgmq.q_QUEUE as q where q.msg_id = a.first and q.vt > v_now
        );
      end if;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('rescan_turns', 'sort');
