-- tidegate.try_lock: takes an advisory lock to the end of the transaction, if it can be had within `p_wait`
--
-- Whether it was. A caller's own, shorter lock_timeout holds. Those who wait get it in their order.
create or replace function tidegate.try_lock(p_key bigint, p_shared boolean, p_wait interval)
  returns boolean
  language plpgsql
as $$
declare
  v_before  text;
  v_wait_ms bigint;
begin
  if (p_shared and pg_try_advisory_xact_lock_shared(p_key)) or (not p_shared and pg_try_advisory_xact_lock(p_key)) then
    return true;
  end if;

  v_before := current_setting('lock_timeout');
  v_wait_ms := extract(epoch from p_wait) * 1000;
  if v_before::interval = interval '0' or v_before::interval > p_wait then
    perform set_config('lock_timeout', v_wait_ms::text, true);
  end if;
  begin
    if p_shared then
      perform pg_advisory_xact_lock_shared(p_key);
    else
      perform pg_advisory_xact_lock(p_key);
    end if;
  exception when lock_not_available then
    perform set_config('lock_timeout', v_before, true);
    return false;
  end;
  perform set_config('lock_timeout', v_before, true);
  return true;
end;
$$;
