-- expire_responses: receipt_received → timed_out, when the response is overdue. Maintenance: one batch.
--
-- A maintenance duty, one bounded batch a call. Returns how many requests ended, and whether more may be due.
create or replace function tidegate.expire_responses(batch integer default 1000, out expired bigint, out more boolean)
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_ids uuid[] := array(
    select a.request_id from tidegate.awaiting_response as a where a.due_at <= tidegate.clock()
      order by a.due_at limit batch
  );
begin
  more := cardinality(v_ids) = batch;
  select count(*) into expired
  from tidegate_internal.end_requests(
    v_ids, '{receipt_received}', 'timed_out', '{response_timed_out}',
    tidegate_internal.error_json('response_timed_out', 'the downstream did not answer in time', true)
  );
end;
$$;
select tidegate_internal.allow('expire_responses', '{api,worker,admin}');
