-- try_lock: Takes an advisory lock to the end of the transaction, if it can be had within `p_wait`; returns whether it
-- was.
--
-- A caller's own, shorter lock_timeout holds. Waiting transactions get the lock in their order; an exclusive wait is
-- interrupted now and then, because behind it no transaction gets the lock shared.
create or replace function tidegate_internal.try_lock(p_key bigint, p_shared boolean, p_wait interval)
  returns boolean language plpgsql as $$
declare
  v_interrupt_after constant interval := '200 milliseconds';
  v_before          constant text := current_setting('lock_timeout');
  v_until           constant timestamptz := tidegate.clock()
    + least(p_wait, case when v_before::interval > interval '0' then v_before::interval end);
  v_left            interval;
begin
  loop
    if (p_shared and pg_try_advisory_xact_lock_shared(p_key))
      or (not p_shared and pg_try_advisory_xact_lock(p_key)) then
      return true;
    end if;
    v_left := v_until - tidegate.clock();
    if v_left < interval '1 millisecond' then
      return false;
    end if;
    begin
      perform set_config('lock_timeout', ceil(1000 * extract(epoch from
        case when p_shared then v_left else least(v_left, v_interrupt_after) end))::text, true);
      perform case when p_shared then pg_advisory_xact_lock_shared(p_key) else pg_advisory_xact_lock(p_key) end;
      perform set_config('lock_timeout', v_before, true);
      return true;
    exception when lock_not_available then
      -- The setting went with the attempt.
      perform pg_sleep(0.02);
    end;
  end loop;
end;
$$;
