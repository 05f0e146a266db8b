-- held_count: How many requests of a queue are held.
--
-- Judged by one reading of the clock, taken after the snapshot: a lease prolonged between `p_now` and the snapshot
-- reaches further than it could at `p_now`, and would count as none.
create or replace function tidegate_internal.held_count(p_queue text, p_now timestamptz)
  returns bigint language plpgsql stable as $$
begin
  return (
    select count(*)
    from (select tidegate.clock() as now offset 0) as clock
    cross join tidegate.claim as c
    cross join unnest(c.ids) as i(id)
    join tidegate.request as r on r.id = any(array[i.id]) and r.lease = c.token
    where c.queue = p_queue and c.until > p_now and tidegate.is_held(c.until, c.lease_ms, clock.now)
  );
end;
$$;
select tidegate_internal.plan_along_indexes('held_count', 'hashjoin');
