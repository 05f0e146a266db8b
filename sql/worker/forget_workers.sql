-- forget_workers: Removes workers that have not been seen for a day; a maintenance duty.
create or replace function tidegate.forget_workers(unseen_for interval default '1 day')
  returns bigint language sql security definer as $$
  with gone as (delete from tidegate.worker as w where w.last_seen_at < tidegate.clock() - unseen_for returning w.name)
  select count(*) from gone;
$$;
select tidegate_internal.allow('forget_workers', '{api,worker,admin}');
