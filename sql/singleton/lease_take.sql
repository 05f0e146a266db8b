-- lease_take: Takes the lease of a singleton that is free; returns its epoch, or null while another holds it.
--
-- The epoch is greater than that of all leases before. Let each write of the singleton name it, and refuse those with
-- an epoch below the greatest seen: then a holder that hangs and comes back writes nothing. The lease is also held
-- against another call with the same holder. Commit synchronously: an epoch that a crash forgets is given out again.
create or replace function tidegate.lease_take(name text, holder text, lasts interval)
  returns bigint language plpgsql security definer as $$
declare
  v_now   timestamptz;
  v_epoch bigint;
begin
  perform tidegate_internal.require_lease_time(lasts);
  insert into tidegate.singleton (name, epoch, holder, taken_at, until, lease_ms)
  values (lease_take.name, 0, lease_take.holder, tidegate.clock(), '-infinity', 0)
  on conflict on constraint singleton_pkey do nothing;
  perform from tidegate.singleton as s where s.name = lease_take.name for update;
  -- After the wait for the row: a lease taken during the wait reaches further than it could at a time before it, and
  -- would count as none.
  v_now := tidegate.clock();
  update tidegate.singleton as s
  set epoch = s.epoch + 1, holder = lease_take.holder, taken_at = v_now, until = v_now + lasts,
    lease_ms = ceil(extract(epoch from lasts) * 1000)::bigint
  where s.name = lease_take.name and not tidegate.is_held(s.until, s.lease_ms, v_now)
  returning s.epoch into v_epoch;
  return v_epoch;
end;
$$;
select tidegate_internal.allow('lease_take', '{api,worker,admin}');
