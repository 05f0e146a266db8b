-- take_messages: locks up to `p_limit` waiting messages in msg_id order and puts them under one lease
--
-- Returns the messages' numbers and request ids; nulls when nothing waits.
--
-- A claim must cost the same while somebody holds an old snapshot, when every message served since stays in the
-- indexes as a dead entry. So it starts at the queue's low-water mark, and takes what has come due below the mark
-- (backoffs, not-before, expired leases) through the index on the visibility time, from a second mark on. Both
-- marks only save work: `rescan_queue` finds what they left behind.
--
-- With `p_kinds`, requests of other kinds stay where they are, and neither mark passes them: behind many of them a claim begins
-- at the marks of its kinds (`kind_mark`). A message without a request is taken by any claim. A request's kind is a scalar
-- subquery: for `exists`, PostgreSQL might hash all requests of other kinds.
create or replace function tidegate_internal.take_messages(
  p_queue         text,
  p_limit         integer,
  p_headers       jsonb,
  p_visible_again timestamptz,
  p_now           timestamptz,
  p_kinds         text[],
  out msg_ids     bigint[],
  out ids         uuid[]
)
  language plpgsql
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones, too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set enable_sort = off
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_mark_step constant integer := 4000;
  v_due_limit constant integer := 2000;
  v_due_step  constant interval := '200 milliseconds';
  v_due_slack constant interval := '100 milliseconds';
  v_mark      bigint;
  v_from      bigint;
  v_due_from  timestamptz;
  v_due_to    timestamptz;
  v_first     bigint;
begin
  case p_queue
    -- each queue
    when 'QUEUE' then
      v_mark := coalesce(pg_sequence_last_value('tidegate.mark_QUEUE'), 0);
      v_from := v_mark;
      if p_kinds is not null then
        v_from := greatest(v_mark, tidegate_internal.kinds_mark(p_queue, p_kinds));
      end if;
      v_due_from := to_timestamp(coalesce(pg_sequence_last_value('tidegate.due_QUEUE'), 0) / 1000000.0);
      -- Materialized: a planner free to run a locking subquery again could lock more rows than the limit. The time is no
      -- condition of the index on it where a few messages are found by their numbers.
      with due as materialized (
        select m.msg_id, m.vt
        from pgmq.q_QUEUE as m
        where m.vt > v_due_from and m.vt <= p_now and (p_kinds is null or (
          select r.kind = any(p_kinds) from tidegate.request as r where r.id = tidegate.message_request_id(m.message)
        ) is not false)
        order by m.vt
        limit v_due_limit
      ), due_taken as materialized (
        select m.msg_id
        from pgmq.q_QUEUE as m
        where m.msg_id = any(array(select due.msg_id from due)) and m.msg_id < v_from and coalesce(m.vt <= p_now, false)
        order by m.msg_id
        limit p_limit
        for update skip locked
      ), fresh_taken as materialized (
        select m.msg_id
        from pgmq.q_QUEUE as m
        where m.msg_id >= v_from and coalesce(m.vt <= p_now, false) and (p_kinds is null or (
          select r.kind = any(p_kinds) from tidegate.request as r where r.id = tidegate.message_request_id(m.message)
        ) is not false)
        order by m.msg_id
        limit p_limit - (select count(*) from due_taken)
        for update skip locked
      ), held as (
        update pgmq.q_QUEUE as m
        set vt = p_visible_again, headers = p_headers, read_ct = m.read_ct + 1, last_read_at = p_now
        where m.msg_id = any(array(
          select due_taken.msg_id from due_taken union all select fresh_taken.msg_id from fresh_taken
        ))
        returning m.msg_id, tidegate.message_request_id(m.message) as id
      )
      select
        array_agg(h.msg_id), array_agg(h.id),
        -- Up to here all that came due is dealt with: to the first one left over, or to the end of a full look.
        (
          select least(
            min(due.vt) filter (where due.msg_id <> all(array(
              select due_taken.msg_id from due_taken union all select fresh_taken.msg_id from fresh_taken
            ))),
            case when count(*) = v_due_limit then max(due.vt) end
          ) - interval '1 microsecond'
          from due
        ),
        (select min(fresh_taken.msg_id) from fresh_taken)
      into msg_ids, ids, v_due_to, v_first
      from (select held.msg_id, held.id from held order by held.msg_id) as h;

      if p_kinds is not null then
        v_due_to := (
          select m.vt - interval '1 microsecond'
          from pgmq.q_QUEUE as m
          where m.vt > v_due_from and m.vt <= p_now
          order by m.vt
          limit 1
        );
      end if;
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;

  if p_kinds is not null or msg_ids is null then
    perform tidegate_internal.raise_marks(
      p_queue, p_kinds, p_now, v_mark, v_from, v_first, cardinality(msg_ids) < p_limit is not false, v_mark_step
    );
  elsif v_first - v_mark > v_mark_step then
    perform tidegate_internal.raise_mark(p_queue, v_first);
  end if;
  v_due_to := least(v_due_to, p_now - v_due_slack);
  if msg_ids is not null and v_due_to - v_due_from > v_due_step then
    perform tidegate_internal.raise_due(p_queue, v_due_to);
  end if;
end;
$$;

comment on function tidegate_internal.take_messages is
  'Locks waiting messages in order and puts them under one lease.';
