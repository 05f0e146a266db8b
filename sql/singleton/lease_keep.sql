-- lease_keep: Extends the lease of a singleton to lasts from now; false once it has run out or was taken over.
create or replace function tidegate.lease_keep(name text, epoch bigint, lasts interval)
  returns boolean language plpgsql security definer as $$
begin
  perform tidegate_internal.require_lease_time(lasts);
  -- One that may be held is locked first, so that the clock is read after the wait for it.
  perform
  from tidegate.singleton as s
  where s.name = lease_keep.name and s.epoch = lease_keep.epoch
    and tidegate.is_held(s.until, s.lease_ms, tidegate.clock())
  for update;
  update tidegate.singleton as s
  set until = tidegate.clock() + lasts, lease_ms = ceil(extract(epoch from lasts) * 1000)::bigint
  where s.name = lease_keep.name and s.epoch = lease_keep.epoch
    and tidegate.is_held(s.until, s.lease_ms, tidegate.clock());
  return found;
end;
$$;
select tidegate_internal.allow('lease_keep', '{api,worker,admin}');
