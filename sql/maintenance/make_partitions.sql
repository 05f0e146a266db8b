-- make_partitions: Maintenance: makes the history partitions of today and the days ahead; returns their names.
--
-- One partition a day, by the time in the request's id. What comes before the first partition, or when none was
-- made in time, goes to the default one; up to 50,000 rows of it move to the partition of their day when that is made.
-- Returns the names of those it made; gives up after 200 ms when
-- another transaction holds a lock, because waiting would block all later ones; the next call tries again.
create or replace function tidegate.make_partitions(days_ahead integer default 3)
  returns setof text language plpgsql security definer
  set plan_cache_mode = force_generic_plan
  set lock_timeout = '200ms'
as $$
declare
  v_most  constant integer := 50000;
  v_today constant timestamptz := date_trunc('day', tidegate.clock(), 'UTC');
  v_name  text;
  v_from  uuid;
  v_to    uuid;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('tidegate.make_partitions', 0)) then
    return;
  end if;

  for v_name, v_from, v_to in
    select
      to_char(d.day at time zone 'UTC', '"stored_event_"YYYY_MM_DD'), tidegate.uuid_v7_floor(d.day),
      tidegate.uuid_v7_floor(d.day + interval '24 hours')
    from generate_series(0, days_ahead) as ahead
    cross join lateral (select v_today + ahead * interval '24 hours' as day) as d
  loop
    continue when to_regclass('tidegate.' || quote_ident(v_name)) is not null;
    -- More rows would keep the writers of that day waiting for too long: the day stays in the default partition.
    continue when exists (
      select from tidegate.stored_event_default as e where e.request_id >= v_from and e.request_id < v_to
      offset v_most
    );
    begin
      -- Made apart and attached: `create table … partition of` would lock every writer of the history out.
      execute format('create table tidegate.%I (like tidegate.stored_event including all)', v_name);
      if exists (
        select from tidegate.stored_event_default as e where e.request_id >= v_from and e.request_id < v_to
      ) then
        lock table tidegate.stored_event_default in access exclusive mode;
        execute format(
          $sql$
            with moved as (
              delete from tidegate.stored_event_default as e
              where e.request_id >= %L and e.request_id < %L
              returning e.*
            )
            insert into tidegate.%I select m.* from moved as m
          $sql$, v_from, v_to, v_name
        );
      end if;
      execute format(
        'alter table tidegate.stored_event attach partition tidegate.%I for values from (%L) to (%L)',
        v_name, v_from, v_to
      );
    exception when lock_not_available then
      return;
    end;
    return next v_name;
  end loop;
end;
$$;
select tidegate_internal.allow('make_partitions', '{api,worker,admin}');
