-- held_count: how many messages of a queue are held
--
-- Judged by one reading of the clock, taken after the snapshot: a lease prolonged between `p_now` and the snapshot
-- reaches further than it could at `p_now`, and would count as none.
create or replace function tidegate_internal.held_count(p_queue text, p_now timestamptz)
  returns bigint
  language plpgsql
  stable
  -- A plan that is kept may have been made for empty tables: joined as written, along indexes, it serves full ones, too.
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_held bigint;
begin
  case p_queue
    -- each queue
    when 'QUEUE' then
      select count(*) into v_held
      from (select tidegate.clock() as now) as clock
      cross join pgmq.q_QUEUE as m
      where m.headers is not null and m.vt > p_now and tidegate.is_held(m.headers, m.vt, clock.now);
    -- end of each queue
    else perform tidegate_internal.refuse_queue(p_queue);
  end case;
  return v_held;
end;
$$;

comment on function tidegate_internal.held_count is 'How many messages of a queue are held.';
