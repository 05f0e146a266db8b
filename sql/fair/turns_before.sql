-- turns_before: `waiting_before` of a fair queue: how many waiting messages would be served before each of some, if no
-- other arrived.
--
-- An element of `p_msg_ids` is the number of a message; or it is null, and `p_keys` has the key of a message that is
-- about to be sent; or both are null, and all waiting messages are counted. `nth` is the element.
--
-- By the definition of turns: with r messages of its own key before it, a message starts at t = tag + r · cost of its
-- key, and of another key those come first that start before t, or at t with a smaller number of their turn. Of the
-- messages of a key `p_counted` are counted (null: all; 1000 at most), the others by the share of their numbers. The
-- turns are read once for all elements.
--
-- A message of a paused key comes after all others.
--
-- `expected` is how many services will be before it, if others go on coming as they did: by how far virtual time has to
-- come, and how many services made a round lately (`queue_pace`). It is what the wait is computed from; beyond all
-- limits for a paused key.
create or replace function tidegate_internal.turns_before(
  p_queue text, p_msg_ids bigint[], p_keys bigint[], p_counted integer, p_now timestamptz
)
  returns table (nth bigint, msg_id bigint, waiting bigint, expected bigint, vt timestamptz)
  language plpgsql stable as $$
#variable_conflict use_column
declare
  -- More in one key cost milliseconds.
  v_counted constant integer := case when p_counted > 1000 then 1000 else p_counted end;
  v_time   bigint;
  v_next   bigint;
  v_pace   numeric;
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      -- Its table may have been dropped.
      if to_regclass('pgmq.q_QUEUE') is null then
        return;
      end if;
      v_time := tidegate_internal.virtual_time(p_queue);
      v_next := (select s.last_value + s.is_called::integer from pgmq.q_QUEUE_msg_id_seq as s);
      v_pace := (
        select p.per_round from tidegate.queue_pace as p
        where p.queue = p_queue and p.observed_at > p_now - interval '10 seconds'
      );
      return query
        with known as materialized (
          select * from tidegate_internal.known_turns(p_queue, v_time, p_now)
        ), asked as materialized (
          select
            e.nth, e.msg_id, q.vt, coalesce(q.fair_key, e.key) as key, e.msg_id is null and e.key is null as is_all,
            row_number() over (partition by e.key order by e.nth) - 1 as place
          from unnest(p_msg_ids, p_keys) with ordinality as e(msg_id, key, nth)
          left join pgmq.q_QUEUE as q on q.msg_id = e.msg_id
        ), of_key as materialized (
          select
            a.key, coalesce(k.no, 9223372036854775807) as no,
            coalesce(k.tag, i.tag, v_time + case when s.paused then tidegate_internal.paused_tags() else 0 end) as tag,
            720720 / coalesce(s.weight, 1) as cost, coalesce(k.n, i.waiting, 0) as n, m.first, m.last,
            s.paused is true as is_paused
          from (select o.key, max(o.msg_id) as last from asked as o where not o.is_all group by o.key) as a
          left join tidegate.fair_key as s on s.queue = p_queue and s.key = a.key
          left join known as k on k.key = a.key
          left join lateral (
            select t.tag, t.head, case when s.paused then t.waiting end as waiting
            from tidegate.turn_QUEUE as t
            where k.key is null and t.key = a.key and t.tag >= v_time
            order by t.tag desc
            limit 1
          ) as i on true
          cross join lateral (
            select
              array(
                select q.msg_id
                from pgmq.q_QUEUE as q
                where (q.fair_key, q.msg_id) >= (a.key, coalesce(k.head, i.head))
                  and (q.fair_key, q.msg_id) < (a.key, a.last)
                  and coalesce(q.vt <= p_now, false)
                order by q.fair_key, q.msg_id
                limit v_counted
              ) as first,
              (
                select q.msg_id
                from pgmq.q_QUEUE as q
                where (q.fair_key, q.msg_id) >= (a.key, coalesce(k.head, i.head)) and q.fair_key <= a.key
                order by q.fair_key desc, q.msg_id desc
                limit 1
              ) as last
          ) as m
        ), placed as materialized (
          select a.nth, a.key, k.tag + r.rank * k.cost as starts, k.no, r.rank, k.is_paused
          from asked as a
          join of_key as k on k.key is not distinct from a.key
          cross join lateral (
            select case
              when a.msg_id is null then k.n + a.place
              when width_bucket(a.msg_id - 1, k.first) = v_counted
                then v_counted + greatest(0, k.n - v_counted) * (a.msg_id - k.first[v_counted])
                  / greatest(1, k.last - k.first[v_counted])
              else width_bucket(a.msg_id - 1, k.first)
            end as rank
          ) as r
          where not a.is_all
        )
        select r.nth, r.msg_id, r.waiting, greatest(r.waiting, r.expected), r.vt
        from (
          select
            a.nth, coalesce(a.msg_id, v_next) as msg_id, a.vt,
            case
              when a.is_all then (select coalesce(sum(k.n), 0)::bigint from known as k)
              else p.rank + (
                select coalesce(sum(least(k.n, (p.starts - k.tag - (k.no > p.no)::integer) / k.cost + 1)), 0)::bigint
                from known as k
                where k.key is distinct from p.key and k.tag <= p.starts - (k.no > p.no)::integer
              )
            end as waiting,
            case when p.is_paused then 1000000000 else floor((p.starts - v_time) / 720720.0 * v_pace)::bigint end
              as expected
          from asked as a
          left join placed as p on p.nth = a.nth
        ) as r;
    -- end of each queue
    -- A queue may be gone, with the request left live in it, until `recover` puts it elsewhere.
    else return;
  end case;
end;
$$;
select tidegate_internal.plan_along_indexes('turns_before', 'sort');
