-- try_lock: Takes an advisory lock to the end of the transaction, if it can be had within `p_wait`.
--
-- Whether it was. A caller's own, shorter lock_timeout holds. Those who wait get it in their order; but who wants it
-- alone steps back now and then, for behind one who waits for it alone, nobody gets it shared either.
create or replace function tidegate_internal.try_lock(p_key bigint, p_shared boolean, p_wait interval)
  returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_turn   constant interval := '200 milliseconds';
  v_before constant text := current_setting('lock_timeout');
  v_until  constant timestamptz := tidegate.clock()
    + least(p_wait, case when v_before::interval > interval '0' then v_before::interval end);
  v_left   interval;
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
        case when p_shared then v_left else least(v_left, v_turn) end))::text, true);
      if p_shared then
        perform pg_advisory_xact_lock_shared(p_key);
      else
        perform pg_advisory_xact_lock(p_key);
      end if;
      perform set_config('lock_timeout', v_before, true);
      return true;
    exception when lock_not_available then
      -- The setting went with the attempt.
      perform pg_sleep(0.02);
    end;
  end loop;
end;
$$;
