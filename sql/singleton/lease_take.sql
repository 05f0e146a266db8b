-- lease_take: Takes the lease of a singleton that is free; returns its epoch, or null while another holds it.
--
-- The epoch is greater than that of all leases before. Let each write of the singleton name it, and refuse those with
-- an epoch below the greatest seen: then a holder that hangs and comes back writes nothing. The lease is also held
-- against another call with the same holder. Commit synchronously: an epoch that a crash forgets is given out again.
create or replace function tidegate.lease_take(name text, holder text, lasts interval)
  returns bigint language plpgsql security definer as $$
declare
  v_now   constant timestamptz := tidegate.clock();
  v_epoch bigint;
begin
  perform tidegate_internal.require_lease_time(lasts);
  insert into tidegate.singleton as s (name, epoch, holder, taken_at, until, lease_ms)
  values (lease_take.name, 1, lease_take.holder, v_now, v_now + lasts, ceil(extract(epoch from lasts) * 1000)::bigint)
  -- By the clock after the wait for the row: a lease taken during the wait ends later than one from `v_now` could, and
  -- would count as none.
  on conflict on constraint singleton_pkey do update
  set epoch = s.epoch + 1, holder = excluded.holder, taken_at = tidegate.clock(), until = tidegate.clock() + lasts,
    lease_ms = excluded.lease_ms
  where not tidegate.is_held(s.until, s.lease_ms, tidegate.clock())
  returning s.epoch into v_epoch;
  return v_epoch;
end;
$$;
select tidegate_internal.allow('lease_take', '{api,worker,admin}');
