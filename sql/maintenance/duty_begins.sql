-- duty_begins: Maintenance: whether this session is to run a batch of a duty now; takes its lock to the end of the
-- transaction.
--
-- A duty that takes long runs less often: at most a twentieth of the time; surveys, without which nothing waits longer,
-- a fiftieth.
create or replace function tidegate.duty_begins(duty text)
  returns boolean language plpgsql security definer as $$
begin
  if not exists (
    select
    from tidegate.maintenance as m
    where m.duty = duty_begins.duty
      and tidegate.clock() not between m.ran_at
        and m.ran_at + greatest(m.period, make_interval(
          secs => coalesce(m.took_ms, 0)::float8 * case m.duty when 'survey_queues' then 50 else 20 end / 1000
        ))
  ) then
    return false;
  end if;
  return pg_try_advisory_xact_lock(hashtextextended('tidegate.duty.' || duty_begins.duty, 0));
end;
$$;
select tidegate_internal.allow('duty_begins', '{api,worker,admin}');
