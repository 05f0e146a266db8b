-- time_out: queued or receipt_received → timed_out, by an operator; returns the requests that moved.
create or replace function tidegate.time_out(ids uuid[])
  returns table (id uuid, req_status tidegate.request_status) language sql security definer as $$
  select tidegate_internal.lock_recovery_shared();
  select * from tidegate_internal.end_requests(
    ids, '{queued,receipt_received}', 'timed_out', '{readiness_timed_out,response_timed_out}', null
  );
$$;
select tidegate_internal.allow('time_out', '{admin}');
