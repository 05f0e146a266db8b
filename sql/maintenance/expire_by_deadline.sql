-- expire_by_deadline: queued, processing, tx_in_flight → failure (deadline_exceeded), past deadline_at. Maintenance:
-- one batch.
--
-- A maintenance duty, one bounded batch a call. Returns how many requests ended, and whether more may be due.
create or replace function tidegate.expire_by_deadline(batch integer default 1000, out expired bigint, out more boolean)
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_due record;
begin
  select * into v_due from tidegate_internal.next_due('expire_by_deadline', 'deadline_at', batch);
  more := v_due.more;
  select count(*) into expired
  from tidegate_internal.end_requests(
    v_due.ids, '{queued,processing,tx_in_flight}', 'failure',
    '{deadline_exceeded,deadline_exceeded,deadline_exceeded}',
    tidegate_internal.error_json('deadline_exceeded', 'the deadline passed before it was answered', true)
  );
  more := tidegate_internal.sweep_cursor_rewind('expire_by_deadline', 'deadline_at', v_due.ids,
    '{queued,processing,tx_in_flight}')
    or more;
end;
$$;
select tidegate_internal.allow('expire_by_deadline', '{api,worker,admin}');
