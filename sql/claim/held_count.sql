-- held_count: How many requests of a queue are held.
--
-- Reads the clock after the snapshot. By `p_now`, a lease that was extended after `p_now` would seem to end later than
-- its length allows, and `is_held` would not count it.
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
