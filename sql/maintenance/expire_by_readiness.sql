-- expire_by_readiness: queued → timed_out (readiness_timed_out), past readiness_deadline_at. Maintenance: one batch.
--
-- A maintenance duty, one bounded batch a call. Returns how many requests ended, and whether more may be due.
create or replace function tidegate.expire_by_readiness(batch integer default 1000, out expired bigint,
  out more boolean)
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_due record;
begin
  select * into v_due from tidegate_internal.next_due('expire_by_readiness', 'readiness_deadline_at', batch);
  more := v_due.more;
  select count(*) into expired
  from tidegate_internal.end_requests(
    v_due.ids, '{queued}', 'timed_out', '{readiness_timed_out}',
    tidegate_internal.error_json('readiness_timed_out', 'not ready in time', true)
  );
  more := tidegate_internal.sweep_cursor_rewind('expire_by_readiness', 'readiness_deadline_at', v_due.ids, '{queued}') or more;
end;
$$;
select tidegate_internal.allow('expire_by_readiness', '{api,worker,admin}');
