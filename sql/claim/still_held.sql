-- still_held: The given leases that are still held: drop the calls of the others. Reads only.
--
-- For workers with long calls. Drop the call of a missing lease: it has run out or was taken over, or its request was
-- cancelled or has ended. Reads only and waits for no lock, so it promises nothing: the settle decides. Raises TG007
-- when the leases name more than one queue.
create or replace function tidegate.still_held(leases tidegate.lease[])
  returns setof tidegate.lease language plpgsql stable security definer as $$
begin
  perform tidegate_internal.lease_queue(leases);
  return query
    select distinct l.queue, l.token, l.id
    from unnest(leases) as l
    join tidegate.request as r on r.id = any(array[l.id]) and r.lease = l.token and r.queue = l.queue
    where r.req_status in ('queued', 'tx_in_flight') and exists (
      select from tidegate.claim as c
      where c.token = l.token and l.id = any(c.ids) and tidegate.is_held(c.until, c.lease_ms, tidegate.clock())
    );
end;
$$;
select tidegate_internal.allow('still_held', '{worker,admin}');
select tidegate_internal.plan_along_indexes('still_held', 'hashjoin');
