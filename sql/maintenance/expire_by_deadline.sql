-- expire_by_deadline: One batch of a maintenance duty: queued, processing, tx_in_flight → failure (deadline_exceeded),
-- past deadline_at.
--
-- Returns how many requests ended, and whether more may be due.
create or replace function tidegate.expire_by_deadline(batch integer default 1000, out expired bigint, out more boolean)
  language plpgsql security definer as $$
begin
  select s.expired, s.more into expired, more
  from tidegate_internal.sweep_deadline('expire_by_deadline', 'deadline_at', 'overdue', batch) as s;
end;
$$;
select tidegate_internal.allow('expire_by_deadline', '{api,worker,admin}');
