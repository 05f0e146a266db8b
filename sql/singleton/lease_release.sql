-- lease_release: Ends the lease of a singleton, so that another process can take it at once; false if it has ended.
create or replace function tidegate.lease_release(name text, epoch bigint)
  returns boolean language plpgsql security definer as $$
begin
  -- One that may be held is locked first, so that the clock is read after the wait for it.
  perform
  from tidegate.singleton as s
  where s.name = lease_release.name and s.epoch = lease_release.epoch
    and tidegate.is_held(s.until, s.lease_ms, tidegate.clock())
  for update;
  update tidegate.singleton as s
  set until = tidegate.clock()
  where s.name = lease_release.name and s.epoch = lease_release.epoch
    and tidegate.is_held(s.until, s.lease_ms, tidegate.clock());
  return found;
end;
$$;
select tidegate_internal.allow('lease_release', '{api,worker,admin}');
