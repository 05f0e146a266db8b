-- take_messages: locks up to `p_limit` waiting messages in msg_id order and puts them under one lease
--
-- Returns the messages' numbers and request ids; nulls when nothing waits.
--
-- A claim must cost the same while somebody holds an old snapshot, when every message served since stays in the
-- indexes as a dead entry. So it starts at the queue's low-water mark, and takes what has come due below the mark
-- (backoffs, not-before, expired leases) through the index on the visibility time, from a second mark on. Both
-- marks only save work: `rescan_queue` finds what they left behind.
--
-- With `p_kinds`, requests of other kinds stay where they are, and neither mark passes them. A message without a request is
-- taken by any claim.
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
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_mark_step constant integer := 4000;
  v_due_limit constant integer := 2000;
  v_due_step  constant interval := '200 milliseconds';
  v_due_slack constant interval := '100 milliseconds';
  v_mark      bigint := coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'mark')), 0);
  v_due_us    bigint := coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'due')), 0);
  v_due_from  timestamptz := to_timestamp(v_due_us / 1000000.0);
  v_due_to    timestamptz;
  v_first     bigint;
  v_ours      constant text := case when p_kinds is null then '' else
    'and not exists (
       select from tidegate.request as r where r.id = tidegate.message_request_id(m.message) and r.kind <> all($8)
     )'
  end;
begin
  -- Materialized: a planner free to run a locking subquery again could lock more rows than the limit.
  execute format(
    $sql$
      with due as materialized (
        select m.msg_id, m.vt from %1$s as m where m.vt > $5 and m.vt <= $4 %2$s order by m.vt limit $7
      ), due_taken as materialized (
        select m.msg_id
        from %1$s as m
        where m.msg_id = any(array(select due.msg_id from due)) and m.msg_id < $6 and m.vt <= $4
        order by m.msg_id
        limit $1
        for update skip locked
      ), fresh_taken as materialized (
        select m.msg_id
        from %1$s as m
        where m.msg_id >= $6 and m.vt <= $4 %2$s
        order by m.msg_id
        limit $1 - (select count(*) from due_taken)
        for update skip locked
      ), held as (
        update %1$s as m
        set vt = $3, headers = $2, read_ct = m.read_ct + 1, last_read_at = $4
        where m.msg_id = any(array(select due_taken.msg_id from due_taken union all select fresh_taken.msg_id from fresh_taken))
        returning m.msg_id, tidegate.message_request_id(m.message) as id
      )
      select
        array_agg(held.msg_id order by held.msg_id),
        array_agg(held.id order by held.msg_id),
        -- Up to here all that came due is dealt with: to the first one left over, or to the end of a full look.
        (
          select least(
            min(due.vt) filter (where due.msg_id <> all(array(
              select due_taken.msg_id from due_taken union all select fresh_taken.msg_id from fresh_taken
            ))),
            case when count(*) = $7 then max(due.vt) end
          ) - interval '1 microsecond'
          from due
        ),
        (select min(fresh_taken.msg_id) from fresh_taken)
      from held
    $sql$,
    tidegate_internal.queue_table(p_queue), v_ours
  )
  into msg_ids, ids, v_due_to, v_first
  using p_limit, p_headers, p_visible_again, p_now, v_due_from, v_mark, v_due_limit, p_kinds;

  if p_kinds is not null then
    execute format(
      $sql$
        select
          (select m.vt - interval '1 microsecond' from %1$s as m where m.vt > $1 and m.vt <= $3 order by m.vt limit 1),
          (select m.msg_id from %1$s as m where m.msg_id >= $2 and m.vt <= $3 order by m.msg_id limit 1)
      $sql$,
      tidegate_internal.queue_table(p_queue)
    ) into v_due_to, v_first using v_due_from, v_mark, p_now;
  end if;

  if v_first - v_mark > v_mark_step then
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
