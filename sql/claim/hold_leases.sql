-- hold_leases: The given leases that are still held, their requests locked until the caller's transaction ends.
--
-- For a transaction of a stage's own that may only commit while its leases are held: until it ends, no other session
-- moves the requests of the leases returned or takes them over, also when a lease runs out meanwhile. The leases may be
-- of several queues. Waits for no lock: the lease of a request that another transaction has locked is not returned,
-- although it may be held; ask again later. Settles of these requests wait, so end the transaction soon, and do not
-- settle or change them in it: two transactions that do could end in a deadlock.
create or replace function tidegate.hold_leases(leases tidegate.lease[])
  returns setof tidegate.lease language plpgsql security definer as $$
begin
  return query
    select l.queue, l.token, l.id
    from (select distinct g.queue, g.token, g.id from unnest(leases) as g) as l
    join tidegate.request as r on r.id = any(array[l.id]) and r.lease = l.token and r.queue = l.queue
    where r.req_status in ('queued', 'tx_in_flight') and exists (
      select from tidegate.claim as c
      where c.token = l.token and l.id = any(c.ids) and tidegate.is_held(c.until, c.lease_ms, tidegate.clock())
    )
    for share of r skip locked;
end;
$$;
select tidegate_internal.allow('hold_leases', '{worker,admin}');
select tidegate_internal.plan_along_indexes('hold_leases', 'hashjoin');
