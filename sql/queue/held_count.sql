-- held_count: how many messages of a queue are held
--
-- Judged by one reading of the clock, taken after the snapshot: a lease prolonged between `p_now` and the snapshot
-- reaches further than it could at `p_now`, and would count as none.
create or replace function tidegate_internal.held_count(p_queue text, p_now timestamptz)
  returns bigint
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_held bigint;
begin
  execute format(
    $sql$
      select count(*)
      from (select tidegate.clock() as now) as clock
      cross join %s as m
      where m.headers is not null and m.vt > $1 and tidegate.is_held(m.headers, m.vt, clock.now)
    $sql$,
    tidegate_internal.queue_table(p_queue)
  ) into v_held using p_now;
  return v_held;
end;
$$;

comment on function tidegate_internal.held_count is 'How many messages of a queue are held.';
