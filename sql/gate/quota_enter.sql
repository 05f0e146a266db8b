-- quota_enter: How many new requests the quotas of a kind and of a submitter admit now.
--
-- Strict quotas are locked to the end of the transaction, in the order of their names, and then counted: one submission
-- comes after the other has committed. A quota that is forced open admits everything. `room` is null where no quota
-- applies. Raises 55P03 when another transaction keeps a lock for too long.
create or replace function tidegate_internal.quota_enter(p_kind text, p_submitter text)
  returns tidegate.admission language plpgsql as $$
declare
  v_wait_max  constant interval := '5 seconds';
  v_gate      tidegate.gate;
  v_depth     bigint;
  v_admission tidegate.admission := (null, false, '{}', '{}');
begin
  for v_gate in select * from tidegate.gate as g where g.kind = p_kind or g.submitter = p_submitter order by g.name loop
    if v_gate.mode = 'strict' then
      if not tidegate_internal.try_lock(tidegate.queue_lock_key(v_gate.name, 'admission'), false, v_wait_max) then
        raise exception using errcode = '55P03',
          message = format('gate "%s" is busy: another transaction has submitted and is still open', v_gate.name),
          hint = 'submit again; pg_stat_activity lists transactions that stay open';
      end if;
      -- It may have closed, and drained a little, while the lock was waited for; or be gone.
      select * into v_gate from tidegate.gate as g where g.name = v_gate.name;
    end if;
    v_admission.closed := v_admission.closed or coalesce(v_gate.state = 'too_many_requests', false);
    continue when v_gate.forced or v_gate.name is null;
    v_depth := tidegate_internal.gate_count(v_gate, v_gate.high_water + 1);
    v_admission.room := least(v_admission.room, greatest(v_gate.high_water - v_depth, 0));
    v_admission.counted := v_admission.counted || v_gate.name;
    v_admission.depths := v_admission.depths || v_depth;
  end loop;
  if v_admission.closed then
    v_admission.room := 0;
  end if;
  return v_admission;
end;
$$;
