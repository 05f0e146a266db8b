-- expire_responses: One batch of a maintenance duty: receipt_received → timed_out, when the response is overdue.
--
-- Returns how many requests ended, and whether more may be due.
create or replace function tidegate.expire_responses(batch integer default 1000, out expired bigint, out more boolean)
  language plpgsql security definer as $$
declare
  -- The time is a subquery, which is evaluated once: no index serves a comparison with a volatile function.
  v_ids uuid[] := array(
    select a.request_id
    from tidegate.awaiting_response as a
    where a.due_at <= (select tidegate.clock())
      and not tidegate_internal.is_passed_over(a.request_id, 'expire_responses')
    order by a.due_at
    limit batch
  );
begin
  more := cardinality(v_ids) = batch;
  expired := 0;
  if v_ids = '{}' then
    return;
  end if;
  select count(*) into expired from tidegate_internal.end_expired(v_ids, 'unanswered');
end;
$$;
select tidegate_internal.allow('expire_responses', '{api,worker,admin}');
select tidegate_internal.plan_along_indexes('expire_responses');
