-- next_due: The next requests whose deadline has passed, going on from where the duty's last sweep ended.
--
-- `p_column` is deadline_at or readiness_deadline_at. Each row is visited about once, finished or not. A sweep begins
-- a little before the end of the last one: that overlap finds rows that were committed late. Its batches follow each
-- other without overlap, or a batch full of rows that have ended would come again and again. The caller ends what is
-- live in the same transaction. Null ids when nothing is due, or when another sweep or a recovery is under way.
create or replace function tidegate_internal.next_due(
  p_duty   text,
  p_column text,
  p_batch  integer,
  out ids  uuid[],
  out more boolean
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_overlap constant interval := '5 seconds';
  v_no_id   constant uuid := '00000000-0000-0000-0000-000000000000';
  v_now     timestamptz := tidegate.clock();
  v_cursor  tidegate.maintenance;
  v_last_at timestamptz;
begin
  more := false;
  -- As `lock_recovery_shared`, but a sweep need not wait: there is a next one.
  if not pg_try_advisory_xact_lock(hashtextextended('tidegate.' || p_duty, 0))
    or not pg_try_advisory_xact_lock_shared(hashtextextended('tidegate.recover', 0))
  then
    return;
  end if;

  select * into v_cursor from tidegate.maintenance as m where m.duty = p_duty;
  -- The start of a sweep; or the clock has stepped back behind the middle of one.
  if v_cursor.cursor_id = v_no_id or v_cursor.cursor_at > v_now then
    v_cursor.cursor_at := least(v_cursor.cursor_at, v_now - v_overlap);
    v_cursor.cursor_id := v_no_id;
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
  into ids, more, v_last_at
  using v_cursor.cursor_at, v_cursor.cursor_id, v_now, p_batch;

  -- A full batch goes on right behind itself; the end of a sweep stays behind the present.
  update tidegate.maintenance as m
  set
    cursor_at = case when more then v_last_at else v_now - v_overlap end,
    cursor_id = case when more then ids[cardinality(ids)] else v_no_id end
  where m.duty = p_duty;
end;
$$;
