-- sweep_deadline: One batch of a deadline sweep: ends the next requests whose deadline has passed, and moves the cursor
-- of the duty behind them.
--
-- `p_column` is deadline_at or readiness_deadline_at, `p_fate` as in `end_expired`. Each row is visited about once,
-- ended or not. A sweep begins 5 seconds or more before the end of the last one: that overlap finds rows that were
-- committed late. A transaction that stays open for longer may commit a request whose deadline the cursor has passed.
-- So once a minute a sweep sets a mark: its time, and the first transaction that has not begun. When all transactions
-- before the mark have ended, a sweep begins at the time of the mark before: what they have committed is due later.
-- Batches follow each other without overlap, because a batch full of ended rows would repeat for ever. What could not
-- be ended is behind the cursor: `passed_over` has when to try it again. Returns 0 when nothing is due, or when another
-- sweep or a recovery is under way.
create or replace function tidegate_internal.sweep_deadline(
  p_duty text, p_column text, p_fate text, p_batch integer,
  out expired bigint, out more boolean
)
  language plpgsql as $$
declare
  v_overlap constant interval := '5 seconds';
  -- A submission may wait for a key between its look at the clock and its first write.
  v_waits   constant interval := '20 seconds';
  v_open    constant pg_snapshot := pg_current_snapshot();
  v_no_id   constant uuid := '00000000-0000-0000-0000-000000000000';
  v_from    constant tidegate.request_status[] :=
    case p_fate when 'unready' then '{queued}' else '{queued,processing,tx_in_flight}' end;
  v_now     timestamptz := tidegate.clock();
  v_cursor  tidegate.maintenance;
  v_ids     uuid[];
  v_last_at timestamptz;
begin
  expired := 0;
  more := false;
  -- As `lock_recovery_shared`, but without waiting: the next sweep does the work.
  if not pg_try_advisory_xact_lock(hashtextextended('tidegate.' || p_duty, 0))
    or not pg_try_advisory_xact_lock_shared(hashtextextended('tidegate.recover', 0))
  then
    return;
  end if;

  select * into v_cursor from tidegate.maintenance as m where m.duty = p_duty;
  -- The start of a sweep; or the clock was set back behind the middle of one.
  if v_cursor.cursor_id = v_no_id or v_cursor.cursor_at > v_now then
    v_cursor.cursor_at := least(v_cursor.cursor_at, v_now - v_overlap);
    v_cursor.cursor_id := v_no_id;
    if v_now not between v_cursor.mark_at and v_cursor.mark_at + interval '1 minute'
      -- A number of another cluster, in a restored database, says nothing.
      and (v_cursor.mark_xact <= pg_snapshot_xmin(v_open) or v_cursor.mark_xact > pg_snapshot_xmax(v_open))
    then
      v_cursor.cursor_at := least(v_cursor.cursor_at, v_cursor.seen_at - v_waits);
      update tidegate.maintenance as m
      set seen_at = m.mark_at, mark_at = v_now, mark_xact = pg_snapshot_xmax(v_open)
      where m.duty = p_duty;
    end if;
  end if;
  execute format(
    $sql$
      with due as materialized (
        select r.id, r.%1$I as due_at
        from tidegate.request as r
        where r.%1$I >= $1 and r.%1$I <= $3 and (r.%1$I, r.id) > ($1, $2)
        order by r.%1$I, r.id
        limit $4
      )
      select array_agg(due.id order by due.due_at, due.id), count(*) = $4, max(due.due_at) from due
    $sql$,
    p_column
  )
  into v_ids, more, v_last_at
  using v_cursor.cursor_at, v_cursor.cursor_id, v_now, p_batch;

  -- A full batch continues at its end; the end of a sweep stays behind the present. Sweeps over no rows write it once a
  -- minute: the next one may begin that far back.
  update tidegate.maintenance as m
  set
    cursor_at = case when more then v_last_at else v_now - v_overlap end,
    cursor_id = case when more then v_ids[cardinality(v_ids)] else v_no_id end
  where m.duty = p_duty and (
    v_ids is not null or m.cursor_id <> v_no_id or m.cursor_at not between v_now - interval '1 minute' and v_now
  );
  v_ids := v_ids || tidegate_internal.due_again(p_duty, p_column, v_from, p_batch);
  if coalesce(cardinality(v_ids), 0) = 0 then
    return;
  end if;
  select count(*) into expired from tidegate_internal.end_expired(v_ids, p_fate);

  -- `end_requests` leaves a request live that changed its queue or number while it waited for the message. The cursor
  -- may be behind that request already.
  execute format(
    $sql$
      select min(r.%1$I)
      from tidegate.request as r
      where r.id = any($1) and r.req_status = any($2) and r.%1$I <= $3
        and not tidegate_internal.is_passed_over(r.id, $4)
    $sql$,
    p_column
  )
  into v_last_at
  using v_ids, v_from, tidegate.clock(), p_duty;
  if v_last_at is not null then
    update tidegate.maintenance as m set cursor_at = v_last_at, cursor_id = v_no_id where m.duty = p_duty;
    more := true;
  end if;
end;
$$;
