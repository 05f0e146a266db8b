-- take_messages: Takes up to `p_limit` waiting messages out of a queue, in msg_id order, for a claim.
--
-- Returns the messages' numbers and request ids; nulls when nothing waits. The caller makes a claim of them, and then
-- raises the watermarks (`claim_finish`, for which the other values are).
--
-- Requests of a lease that has run out come first, and alone (`reaped`): a claim holds the rows that it has reaped, and
-- must lock no others that may come before them.
--
-- A claim must cost the same while an old snapshot is held, when every message served since stays in the indexes as a
-- dead entry. So it starts at the queue's watermark, and takes messages that have come due below it (backoffs,
-- not-before) through the index on the visibility time, from a second mark on. Both marks only save work:
-- `rescan_queue` finds messages that they left behind.
--
-- With `p_kinds`, requests of other kinds stay where they are, and neither mark passes them: behind many of them a
-- claim begins at the watermarks of its kinds (`kind_watermark`). A message without a request is taken by any claim.
create or replace function tidegate_internal.take_messages(
  p_queue text, p_limit integer, p_now timestamptz, p_kinds text[]
)
  returns tidegate.taken_messages language plpgsql as $$
declare
  v_taken    tidegate.taken_messages;
  v_lapsed   boolean;
  v_due      boolean;
  v_next     bigint;
  v_requests text[];
  v_head     bigint;
begin
  case p_queue
    -- each fifo queue
    when 'QUEUE' then
      v_taken.mark := coalesce(pg_sequence_last_value('tidegate.watermark_QUEUE'), 0);
      v_taken.start := v_taken.mark;
      if p_kinds is not null then
        v_taken.start := greatest(v_taken.mark, tidegate_internal.kinds_watermark(p_queue, p_kinds));
      end if;
      v_taken.due_from := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_watermark_QUEUE'), 0) / 1000000.0);
      v_taken.reaped_to := to_timestamp(
        coalesce(pg_sequence_last_value('tidegate.lease_watermark_QUEUE'), 0) / 1000000.0
      );
      -- An idle worker looks often: a claim that finds nothing ends with this statement. `coalesce` keeps a search by
      -- number off the index on the time.
      select
        exists (
          select from tidegate.claim as c
          where c.queue = p_queue and c.until > v_taken.reaped_to and c.until <= p_now
        ),
        exists (select from pgmq.q_QUEUE as m where m.vt > '-infinity' and m.vt > v_taken.due_from and m.vt <= p_now),
        (
          select m.msg_id
          from pgmq.q_QUEUE as m
          where m.msg_id >= v_taken.start and coalesce(m.vt <= p_now, false)
          order by m.msg_id
          limit 1
        )
      into v_lapsed, v_due, v_next;

      if v_lapsed then
        select r.msg_ids, r.ids, r.reaped into v_taken.msg_ids, v_taken.ids, v_taken.reaped
        from tidegate_internal.reap(p_queue, p_limit, p_now, p_kinds) as r;
        if v_taken.reaped then
          return v_taken;
        end if;
      end if;

      -- The locking subqueries are arrays, which run once: one that ran again could lock more rows than the limit. A
      -- row that is locked stays in its place.
      if v_due then
        with due as materialized (
          select m.msg_id, m.vt
          from pgmq.q_QUEUE as m
          where m.vt > '-infinity' and m.vt > v_taken.due_from and m.vt <= p_now
            and (p_kinds is null or tidegate_internal.is_of_kinds(m.message, p_kinds))
          order by m.vt
          limit 2000
        ), taken as (
          delete from pgmq.q_QUEUE as q
          where q.ctid = any(array(
            select m.ctid
            from pgmq.q_QUEUE as m
            where m.msg_id = any(array(select due.msg_id from due)) and m.msg_id < v_taken.start
              and coalesce(m.vt <= p_now, false)
            order by m.msg_id
            limit p_limit
            for update skip locked
          ))
          returning q.msg_id, q.message ->> 'id' as request
        )
        select
          array_agg(t.msg_id), array_agg(t.request),
          -- Not past the messages it took: it may roll back. The next claim passes them.
          (select min(due.vt) - interval '1 microsecond' from due)
        into v_taken.msg_ids, v_requests, v_taken.due_to
        from (select taken.msg_id, taken.request from taken order by taken.msg_id) as t;
        if p_kinds is not null then
          v_taken.due_to := least(v_taken.due_to, (
            select m.vt - interval '1 microsecond'
            from pgmq.q_QUEUE as m
            where m.vt > '-infinity' and m.vt > v_taken.due_from and m.vt <= p_now
            order by m.vt
            limit 1
          ));
        end if;
      end if;

      if v_next is not null and cardinality(v_taken.msg_ids) >= p_limit is not true then
        with taken as (
          delete from pgmq.q_QUEUE as q
          where q.ctid = any(array(
            select m.ctid
            from pgmq.q_QUEUE as m
            where m.msg_id >= v_next and coalesce(m.vt <= p_now, false)
              and (p_kinds is null or tidegate_internal.is_of_kinds(m.message, p_kinds))
            order by m.msg_id
            limit p_limit - coalesce(cardinality(v_taken.msg_ids), 0)
            for update skip locked
          ))
          returning q.msg_id, q.message ->> 'id' as request
        )
        select
          v_taken.msg_ids || array_agg(t.msg_id), v_requests || array_agg(t.request), min(t.msg_id),
          -- An estimate for submissions: too high if this claim rolls back, until the next one.
          case when p_kinds is null then setval('tidegate.first_waiting_QUEUE', max(t.msg_id) + 1) end
        into v_taken.msg_ids, v_requests, v_taken.first, v_head
        from (select taken.msg_id, taken.request from taken order by taken.msg_id) as t;
      end if;
    -- end of each queue
    else return tidegate_internal.take_turns(p_queue, p_limit, p_now, p_kinds);
  end case;
  v_taken.ids := tidegate_internal.message_request_ids(v_requests);
  return v_taken;
end;
$$;
