-- drop_partitions: Maintenance duty: drops the oldest history partition whose requests are deleted; returns its name.
--
-- Only where some kind has a retention, and only days that are over for a day. Returns null when there is none,
-- or when another transaction holds a lock: waiting would block all later ones, so the next call tries again.
create or replace function tidegate.drop_partitions()
  returns text language plpgsql security definer
  set lock_timeout = '200ms'
as $$
declare
  v_found record;
begin
  if not exists (select from tidegate.kind as k where k.retention is not null)
    or not pg_try_advisory_xact_lock(hashtextextended('tidegate.make_partitions', 0))
  then
    return null;
  end if;

  select p.name, p.day into v_found
  from (
    select c.relname::text as name, to_timestamp(substr(c.relname, 14) || ' +00', 'YYYY_MM_DD TZH') as day
    from pg_inherits as i
    join pg_class as c on c.oid = i.inhrelid
    where i.inhparent = 'tidegate.stored_event'::regclass and c.relname ~ '^stored_event_[0-9]{4}_[0-9]{2}_[0-9]{2}$'
  ) as p
  where p.day < tidegate.clock() - interval '48 hours'
    and not exists (
      select
      from tidegate.request as r
      where r.id >= tidegate.uuid_v7_floor(p.day) and r.id < tidegate.uuid_v7_floor(p.day + interval '24 hours')
    )
  order by p.day
  limit 1;
  if not found then
    return null;
  end if;

  begin
    execute format('drop table tidegate.%I', v_found.name);
  exception when lock_not_available then
    return null;
  end;
  return v_found.name;
end;
$$;
select tidegate_internal.allow('drop_partitions', '{api,worker,admin}');
