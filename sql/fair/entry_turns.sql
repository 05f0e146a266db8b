-- entry_turns: How many messages of a fair queue would be served before messages of these keys that are about to be
-- sent, in their order.
--
-- Exact while few keys take turns and little is in the journal. Else by how many services made a round lately, in which
-- a key of weight 1 has one; no more than there are in the queue. A submission is not to wait until all turns are read.
create or replace function tidegate_internal.entry_turns(p_queue text, p_keys bigint[], p_now timestamptz)
  returns bigint[] language plpgsql as $$
declare
  v_few    constant integer := 64;
  v_most   constant integer := 1000;
  v_fresh  constant integer := 250;
  v_tag    bigint;
  v_no     bigint;
  v_due    timestamptz;
  v_folded timestamptz;
  v_turns  bigint;
  v_rows   bigint;
  v_round  float8;
  v_depth  bigint;
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_tag := coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0);
      v_no := coalesce(pg_sequence_last_value('tidegate.ready_no_QUEUE'), 0);
      v_turns := (
        select count(*)
        from (
          select
          from tidegate.turn_QUEUE as t
          where (t.tag, t.no) >= (v_tag, v_no) and t.idle_at is null
          order by t.tag, t.no
          limit v_few + 1
        ) as t
      );
      v_due := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_watermark_QUEUE'), 0) / 1000000.0);
      v_folded := to_timestamp(coalesce(pg_sequence_last_value('tidegate.folded_QUEUE'), 0) / 1000000.0);
      v_rows := (
        select count(*)
        from (
          (
            select from tidegate.arrival_QUEUE as a where a.urgent and a.at > v_due and a.at <= p_now limit v_fresh
          )
          union all (
            select from tidegate.arrival_QUEUE as a where not a.urgent and a.at > v_folded and a.at <= p_now
            limit v_fresh
          )
        ) as a
      );
      if v_turns > v_few or v_rows >= v_fresh then
        v_depth := (select k.last - k.dead from tidegate_internal.queue_numbers(p_queue) as k);
        v_round := (
          select p.per_round from tidegate.queue_pace as p
          where p.queue = p_queue and p.observed_at > p_now - interval '10 seconds'
        );
        if v_round is null then
          select case when count(*) < v_most then coalesce(sum(720720 / t.cost::float8), 0) end into v_round
          from (
            select t.cost
            from tidegate.turn_QUEUE as t
            where (t.tag, t.no) >= (v_tag, v_no) and t.idle_at is null
            order by t.tag, t.no
            limit v_most
          ) as t;
        end if;
        return array(
          select least(
            v_depth + e.nth - 1,
            case when s.paused is not true and v_round is not null
              then greatest(t.before, ceil((1 + t.before) * v_round / coalesce(s.weight, 1))) end
          )::bigint
          from (
            select a.key, a.nth, row_number() over (partition by a.key order by a.nth) as place
            from unnest(p_keys) with ordinality as a(key, nth)
          ) as e
          left join tidegate.fair_key as s on s.queue = p_queue and s.key = e.key
          cross join lateral (
            -- Before a fold a turn may count too few.
            select e.place - 1 + greatest(0, coalesce(sum(t.waiting), 0)) as before
            from tidegate.turn_QUEUE as t
            where t.key = e.key and t.tag >= v_tag and coalesce(t.idle_at is null, false)
          ) as t
          order by e.nth
        );
      end if;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
  return (
    select array_agg(b.waiting order by b.nth)
    from tidegate_internal.turns_before(
      p_queue, array_fill(null::bigint, array[cardinality(p_keys)]), p_keys, 0, p_now
    ) as b
  );
end;
$$;
select tidegate_internal.plan_along_indexes('entry_turns', 'sort');
