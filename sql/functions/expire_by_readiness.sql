-- tidegate.expire_by_readiness: queued → timed_out (readiness_timed_out), by readiness_deadline_at
--
-- A maintenance duty, one bounded batch a call. Returns how many requests ended, and whether more may be due.
create or replace function tidegate.expire_by_readiness(batch integer default 1000, out expired bigint, out more boolean)
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_due  record;
  v_left timestamptz;
begin
  select * into v_due from tidegate.next_due('expire_by_readiness', 'readiness_deadline_at', batch);
  more := v_due.more;
  select count(*) into expired
  from tidegate.end_requests(
    v_due.ids, '{queued}', 'timed_out', '{readiness_timed_out}',
    tidegate.error_json('readiness_timed_out', 'not ready in time', true)
  );

  -- One that moved to its other queue while this sweep waited is left, because its message may not be locked after
  -- rows: the next batch, a transaction of its own, meets it again.
  select min(r.readiness_deadline_at) into v_left from tidegate.request as r where r.id = any(v_due.ids) and r.req_status = 'queued';
  if v_left is not null then
    more := true;
    update tidegate.maintenance as m
    set cursor_at = v_left, cursor_id = '00000000-0000-0000-0000-000000000000'
    where m.duty = 'expire_by_readiness';
  end if;
end;
$$;
