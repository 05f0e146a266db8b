-- fold_arrivals: Applies one batch of a fair queue's journal to its turns, and deletes it: the urgent rows that are
-- due, or the quiet ones; returns how many it read.
--
-- A key without an active turn gets one, if a message from the first one of its rows on waits: in the order of these
-- messages, at virtual time, or at its own tag if that is later. That of a paused key stays idle (see `set_turn`). A
-- count that finds neither turn nor message goes back into the journal, to meet its counterpart. So for each key,
-- `waiting` of its turn and `n` of its rows that are due make up its waiting messages. The caller holds the lock
-- `turns`; `p_marks`: whether it may raise the mark of these rows.
create or replace function tidegate_internal.fold_arrivals(
  p_queue text, p_urgent boolean, p_now timestamptz, p_marks boolean
)
  returns integer language plpgsql as $$
declare
  v_time   constant bigint := tidegate_internal.virtual_time(p_queue);
  v_far    constant bigint := tidegate_internal.paused_tags();
  v_folded record;
  v_from   timestamptz;
  v_mark   regclass;
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_mark := case when p_urgent then 'tidegate.due_watermark_QUEUE' else 'tidegate.folded_QUEUE' end;
      v_from := to_timestamp(coalesce(pg_sequence_last_value(v_mark), 0) / 1000000.0);
      with folded as (
        delete from tidegate.arrival_QUEUE as a
        where a.ctid = any(case
          when p_urgent then array(
            select u.ctid from tidegate.arrival_QUEUE as u
            where u.urgent and u.at > v_from and u.at <= p_now order by u.at limit 2000
          )
          else array(
            select u.ctid from tidegate.arrival_QUEUE as u
            where not u.urgent and u.at > v_from and u.at <= p_now order by u.at limit 2000
          )
        end)
        returning a.key, a.first, a.n, a.at
      ), of_key as materialized (
        select f.key, min(f.first) as first, sum(f.n)::bigint as n, min(f.at) as at, count(*) as rows
        from folded as f
        group by f.key
      ), known as materialized (
        select
          k.*, t.tid, t.is_active, coalesce(s.paused, false) as is_paused, 720720 / coalesce(s.weight, 1) as cost,
          case
            when t.is_active then k.first
            when k.first is not null then (
              select q.msg_id
              from pgmq.q_QUEUE as q
              where (q.fair_key, q.msg_id) >= (k.key, k.first) and q.fair_key <= k.key
                and coalesce(q.vt <= p_now, false)
              order by q.fair_key, q.msg_id
              limit 1
            )
          end as head
        from of_key as k
        left join tidegate.fair_key as s on s.queue = p_queue and s.key = k.key
        left join lateral (
          select t.ctid as tid, t.idle_at is null as is_active
          from tidegate.turn_QUEUE as t
          where t.key = k.key and t.tag >= v_time
          order by t.tag desc
          limit 1
        ) as t on true
      ), numbered as materialized (
        select
          k.*,
          case when k.is_active is not true and k.head is not null and not k.is_paused
            then nextval('tidegate.last_turn_QUEUE') end as no
        from (select * from known order by known.first) as k
      ), unmatched as (
        insert into tidegate.arrival_QUEUE (at, key, n, urgent)
        select tidegate.clock(), k.key, k.n, false
        from numbered as k
        where k.tid is null and k.head is null and k.n <> 0
      ), changed as (
        update tidegate.turn_QUEUE as t
        set
          waiting = t.waiting + k.n,
          head = case when k.no is null then least(t.head, k.head) else k.head end,
          cost = k.cost,
          tag = case
            when k.no is not null then greatest(t.tag, v_time)
            when k.is_paused and t.tag < v_far then t.tag + v_far
            else t.tag
          end,
          no = coalesce(k.no, t.no),
          idle_at = case when k.no is null then t.idle_at end
        from numbered as k
        where t.ctid = k.tid
      ), made as (
        insert into tidegate.turn_QUEUE (key, tag, no, cost, head, waiting, idle_at)
        select
          k.key, v_time + case when k.is_paused then v_far else 0 end, coalesce(k.no, 0),
          k.cost, k.head, k.n, case when k.is_paused then tidegate.clock() end
        from numbered as k
        where k.tid is null and k.head is not null
      )
      select coalesce(sum(k.rows), 0)::integer as rows, min(k.at) as at into v_folded from numbered as k;
      -- Behind the clock, and before what was folded, which may roll back.
      v_from := least(p_now - interval '100 milliseconds', v_folded.at - interval '1 microsecond');
      if p_marks and v_from - to_timestamp(coalesce(pg_sequence_last_value(v_mark), 0) / 1000000.0)
        > interval '200 milliseconds'
      then
        perform setval(v_mark, (extract(epoch from v_from) * 1000000)::bigint);
      end if;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
  return v_folded.rows;
end;
$$;
select tidegate_internal.plan_along_indexes('fold_arrivals');
