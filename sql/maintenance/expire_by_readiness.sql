-- expire_by_readiness: One batch of a maintenance duty: queued → timed_out (readiness_timed_out), past
-- readiness_deadline_at.
--
-- Returns how many requests ended, and whether more may be due.
create or replace function tidegate.expire_by_readiness(batch integer default 1000, out expired bigint,
  out more boolean)
  language plpgsql security definer as $$
begin
  select s.expired, s.more into expired, more
  from tidegate_internal.sweep_deadline('expire_by_readiness', 'readiness_deadline_at', 'unready', batch) as s;
end;
$$;
select tidegate_internal.allow('expire_by_readiness', '{api,worker,admin}');
