-- make_partitions: Maintenance: makes the history partitions of today and the days ahead; returns their names.
--
-- One partition a day, by the time in the request's id. What comes before the first partition, or when none was
-- made in time, goes to the default one. Returns the names of those it made; gives up after 200 ms when
-- another transaction holds a lock, because waiting would block all later ones; the next call tries again.
create or replace function tidegate.make_partitions(days_ahead integer default 3)
  returns setof text language plpgsql security definer
  set plan_cache_mode = force_generic_plan
  set lock_timeout = '200ms'
as $$
declare
  v_day  timestamptz := date_trunc('day', tidegate.clock(), 'UTC');
  v_name text;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('tidegate.make_partitions', 0)) then
    return;
  end if;

  for v_ahead in 0 .. days_ahead loop
    v_name := 'stored_event_' || to_char((v_day + make_interval(days => v_ahead)) at time zone 'UTC', 'YYYY_MM_DD');
    continue when to_regclass('tidegate.' || quote_ident(v_name)) is not null;
    -- Rows of that day in the default partition stay there: then this day's partition cannot be made any more.
    continue when exists (
      select from tidegate.stored_event_default as e
      where e.request_id >= tidegate.uuid_v7_floor(v_day + make_interval(days => v_ahead))
        and e.request_id < tidegate.uuid_v7_floor(v_day + make_interval(days => v_ahead + 1))
    );
    begin
      -- Made apart and attached: `create table … partition of` would lock every writer of the history out.
      execute format('create table tidegate.%I (like tidegate.stored_event including all)', v_name);
      execute format(
        'alter table tidegate.stored_event attach partition tidegate.%I for values from (%L) to (%L)',
        v_name,
        tidegate.uuid_v7_floor(v_day + make_interval(days => v_ahead)),
        tidegate.uuid_v7_floor(v_day + make_interval(days => v_ahead + 1))
      );
    exception
      when lock_not_available then
        return;
    end;
    return next v_name;
  end loop;
end;
$$;
select tidegate_internal.allow('make_partitions', '{api,worker,admin}');
