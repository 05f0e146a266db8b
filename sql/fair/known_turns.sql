-- known_turns: The turns of a fair queue that are ready, and those that the next claim will make: of keys that the
-- journal tells of, in the order of their first messages. `n` is how many messages of the key wait.
--
-- `p_time` is virtual time.
create or replace function tidegate_internal.known_turns(p_queue text, p_time bigint, p_now timestamptz)
  returns table (key bigint, tag bigint, no bigint, cost bigint, head bigint, n bigint) language plpgsql stable as $$
#variable_conflict use_column
declare
  v_new_no constant bigint := 4611686018427387904;  -- after all turns that have a number
  v_tag    bigint;
  v_no     bigint;
  v_due    timestamptz;
  v_folded timestamptz;
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_tag := coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0);
      v_no := coalesce(pg_sequence_last_value('tidegate.ready_no_QUEUE'), 0);
      v_due := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_watermark_QUEUE'), 0) / 1000000.0);
      v_folded := to_timestamp(coalesce(pg_sequence_last_value('tidegate.folded_QUEUE'), 0) / 1000000.0);
      return query
        with journal as materialized (
          select a.key, sum(a.n)::bigint as n, min(a.first) as first
          from (
            select u.key, u.n, u.first
            from tidegate.arrival_QUEUE as u where u.urgent and u.at > v_due and u.at <= p_now
            union all
            select u.key, u.n, u.first
            from tidegate.arrival_QUEUE as u where not u.urgent and u.at > v_folded and u.at <= p_now
          ) as a
          group by a.key
        ), turn as materialized (
          select t.key, t.tag, t.no, t.cost, least(t.head, j.first) as head, t.waiting + coalesce(j.n, 0) as n
          from (
            select t.*
            from tidegate.turn_QUEUE as t
            where (t.tag, t.no) >= (v_tag, v_no) and t.idle_at is null
            order by t.tag, t.no
          ) as t
          left join journal as j on j.key = t.key
        )
        select t.key, t.tag, t.no, t.cost, t.head, greatest(t.n, 0) as n from turn as t
        union all
        select
          j.key, coalesce(i.tag, p_time), v_new_no + row_number() over (order by j.first),
          720720 / coalesce(s.weight, 1), j.first, greatest(j.n + coalesce(i.waiting, 0), 0)
        from journal as j
        left join tidegate.fair_key as s on s.queue = p_queue and s.key = j.key
        left join lateral (
          select t.tag, t.waiting
          from tidegate.turn_QUEUE as t
          where t.key = j.key and t.tag >= p_time
          order by t.tag desc
          limit 1
        ) as i on true
        where j.first is not null and s.paused is not true and j.key not in (select t.key from turn as t);
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('known_turns', 'sort');
