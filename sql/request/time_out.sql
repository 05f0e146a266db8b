-- time_out: queued or receipt_received → timed_out, by an operator; returns the requests that have ended.
--
-- As transactions that end several requests do, it runs beside no recovery. The causes are those of the two statuses.
create or replace function tidegate.time_out(ids uuid[])
  returns table (id uuid, req_status tidegate.request_status) language sql security definer as $$
  select tidegate_internal.lock_recovery_shared();
  select * from tidegate_internal.end_requests(
    ids, '{queued,receipt_received}', 'timed_out', '{readiness_timed_out,response_timed_out}', null
  );
$$;
select tidegate_internal.allow('time_out', '{admin}');
