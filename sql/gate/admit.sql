-- admit: how many new requests of a kind the gates let in now
--
-- Counts at the queue that they enter and at the gates of kind and submitter; the queue that they come to later only has
-- to be open. Locks strict gates, in the order of their names (see `enter_gate`); what is in a gate's way is read under
-- its lock. A gate that is held open by hand lets everything in.
create or replace function tidegate_internal.admit(p_kind tidegate.kind, p_submitter text, p_count integer)
  returns tidegate.admission
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_entry     text := coalesce(p_kind.readiness_queue, p_kind.tx_queue);
  v_gates     tidegate.gate[];
  v_gate      tidegate.gate;
  v_entered   record;
  v_depth     bigint;
  v_admission tidegate.admission := (null, false, '{}', '{}', null);
begin
  select array_agg(g order by g.name), coalesce(bool_or(g.state = 'too_many_requests'), false)
  into v_gates, v_admission.closed
  from tidegate.gate as g
  where g.queue in (p_kind.readiness_queue, p_kind.tx_queue) or g.kind = p_kind.name or g.submitter = p_submitter;

  if not v_admission.closed then
    foreach v_gate in array coalesce(v_gates, '{}') loop
      continue when v_gate.forced or v_gate.queue <> v_entry;
      if v_gate.mode = 'strict' then
        select * into v_entered from tidegate_internal.enter_gate(v_gate.name, p_count);
        v_gate := v_entered.gate;
        v_depth := v_entered.depth;
        v_admission.waiting := coalesce(v_entered.waiting, v_admission.waiting);
        -- It may have closed, and drained a little, while the lock was waited for.
        v_admission.closed := v_admission.closed or v_gate.state = 'too_many_requests';
        -- Nor is one in the way that was removed meanwhile.
        continue when v_depth is null or v_gate.forced or v_gate.name is null;
      else
        continue when v_gate.queue is not null and (
          select b.bound + p_count < v_gate.high_water from tidegate_internal.queue_depth_bound(v_gate.queue) as b
        );
        v_depth := tidegate_internal.gate_depth(v_gate, v_gate.high_water + 1);
      end if;
      v_admission.room := least(v_admission.room, greatest(v_gate.high_water - v_depth, 0));
      v_admission.counted := v_admission.counted || v_gate.name;
      v_admission.depths := v_admission.depths || v_depth;
    end loop;
  end if;
  if v_admission.closed then
    v_admission.room := 0;
  end if;
  return v_admission;
end;
$$;

comment on function tidegate_internal.admit is 'How many new requests of a kind the gates let in now.';
