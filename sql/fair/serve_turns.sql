-- serve_turns: One pass of a claim over the turns of a fair queue: takes up to `p_limit` messages of the first
-- `p_turns` turns that are ready, and moves their turns on.
--
-- Water is poured: `level` is how far virtual time comes when `p_limit` messages are served, if every key has enough.
-- Each key is read up to that level and one message further; of what is found, the messages with the smallest (tag, no)
-- are taken. A pass serves nothing beyond the last turn that it has read, because a turn before that may have had less.
--
-- A message that another session has locked counts as absent (`locked`, with its key in `locked_keys`): its key goes on
-- behind it, and its head stays there. A key that has nothing else is passed in this claim (`passed`): neither idle nor
-- charged. A key that has nothing ends when the claim comes to its turn. The parameters name those of earlier passes,
-- and the results all. `ended` keys had nothing left; `served_to` is the largest tag that was served.
create or replace function tidegate_internal.serve_turns(
  p_queue text, p_limit integer, p_turns integer, p_now timestamptz,
  inout locked bigint[], inout locked_keys bigint[], inout passed bigint[],
  out msg_ids bigint[], out requests text[], out ended bigint, out served_to bigint
)
  language plpgsql as $$
declare
  v_tag bigint;
  v_no  bigint;
  v_new record;
begin
  case p_queue
    -- each fair queue
    when 'QUEUE' then
      v_tag := coalesce(pg_sequence_last_value('tidegate.ready_tag_QUEUE'), 0);
      v_no := coalesce(pg_sequence_last_value('tidegate.ready_no_QUEUE'), 0);
      with turn as materialized (
        select t.ctid as tid, t.key, t.tag, t.no, t.cost, t.head, row_number() over (order by t.tag, t.no) as place
        from tidegate.turn_QUEUE as t
        where (t.tag, t.no) >= (v_tag, v_no) and t.idle_at is null and t.key <> all(passed)
        order by t.tag, t.no
        limit p_turns
      ), read_to as materialized (
        -- Not beyond the last turn that was read, if there may be more.
        select
          v_tag + least(
            floor(min((p_limit + o.below) / o.share))::bigint, case when count(*) = p_turns then max(o.tag) - v_tag end
          ) as level,
          case when count(*) = p_turns then max(o.tag) end as tag,
          case when count(*) = p_turns then max(o.no) filter (where o.place = p_turns) end as no
        from (
          select
            t.tag, t.no, t.place, sum((t.tag - v_tag) / t.cost::float8) over w as below,
            sum(1 / t.cost::float8) over w as share
          from turn as t
          window w as (order by t.place rows unbounded preceding)
        ) as o
      ), wanted as materialized (
        select t.*, r.tag as last_tag, r.no as last_no, least(p_limit, (r.level - t.tag) / t.cost + 1) as wanted
        from turn as t
        cross join read_to as r
        where t.tag <= r.level
      ), found as materialized (
        select
          w.tid, w.key, w.no, w.head, w.wanted, m.tid as message, m.msg_id,
          row_number() over (partition by w.place order by m.msg_id) as nth,
          w.tag + (row_number() over (partition by w.place order by m.msg_id) - 1) * w.cost as at,
          w.last_tag, w.last_no
        from wanted as w
        left join lateral (
          select q.ctid as tid, q.msg_id from pgmq.q_QUEUE as q
          -- Compared as pairs, here and elsewhere, so that no index but (fair_key, msg_id) will do.
          where (q.fair_key, q.msg_id) >= (w.key, w.head) and q.fair_key <= w.key and coalesce(q.vt <= p_now, false)
            and q.msg_id <> all(locked)
          order by q.fair_key, q.msg_id
          limit w.wanted + 1
        ) as m on true
      ), chosen as materialized (
        select
          f.*, f.is_due and count(*) filter (where f.is_due) over w <= p_limit as is_chosen,
          count(*) filter (where f.is_due) over w < p_limit as is_reached
        from (
          select
            f.*,
            f.msg_id is not null and f.nth <= f.wanted and ((f.at, f.no) <= (f.last_tag, f.last_no)) is not false
              as is_due
          from found as f
        ) as f
        window w as (order by f.at, f.no)
      ), taken as (
        delete from pgmq.q_QUEUE as q
        where q.ctid = any(array(
          select m.ctid from pgmq.q_QUEUE as m
          where m.ctid = any(array(select c.message from chosen as c where c.is_chosen))
          for update skip locked
        ))
        returning q.msg_id, q.message ->> 'id' as request
      ), outcome as materialized (
        select c.*, t.request, c.is_chosen and t.msg_id is null as is_locked, t.msg_id is not null as is_taken
        from chosen as c
        left join taken as t on t.msg_id = c.msg_id
      ), of_key as materialized (
        select
          o.tid, o.key, count(*) filter (where o.is_taken) as n, max(o.msg_id) filter (where o.is_taken) as last,
          least(min(o.msg_id) filter (where not o.is_taken), (
            select min(l.msg_id) from unnest(locked, locked_keys) as l(msg_id, key) where l.key = o.key
          )) as next,
          count(o.msg_id) = 0 as is_empty, bool_or(o.is_reached) as is_reached
        from outcome as o
        group by o.tid, o.key
      ), moved as (
        update tidegate.turn_QUEUE as t
        set
          tag = t.tag + k.n * t.cost, head = coalesce(k.next, k.last + 1, t.head), waiting = t.waiting - k.n,
          idle_at = case when k.next is null then tidegate.clock() end
        from of_key as k
        where t.ctid = k.tid and (k.n > 0 or k.next is null and k.is_reached)
      )
      select
        (select array_agg(o.msg_id order by o.at, o.no) from outcome as o where o.is_taken) as msg_ids,
        (select array_agg(o.request order by o.at, o.no) from outcome as o where o.is_taken) as requests,
        (select array_agg(o.msg_id) from outcome as o where o.is_locked) as locked,
        (select array_agg(o.key) from outcome as o where o.is_locked) as locked_keys,
        (select array_agg(k.key) from of_key as k where k.is_empty and k.next is not null) as passed,
        (select count(*) from of_key as k where k.next is null and (k.n > 0 or k.is_reached)) as ended,
        (select max(o.at) from outcome as o where o.is_taken) as served_to
      into v_new;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
  msg_ids := v_new.msg_ids;
  requests := v_new.requests;
  ended := v_new.ended;
  served_to := v_new.served_to;
  locked := locked || v_new.locked;
  locked_keys := locked_keys || v_new.locked_keys;
  passed := passed || v_new.passed;
end;
$$;
select tidegate_internal.plan_along_indexes('serve_turns');
