-- gate_force: Forces a gate to a state (accepting, too_many_requests) or, with null, releases it; returns whether
-- anything changed.
--
-- A forced gate keeps its state at any depth. `queue` is the name of the gate: its queue, or its quota, such as
-- 'kind direct' or 'submitter ann'. A release closes the gate if its depth has reached the high mark, and opens it
-- otherwise, also between the marks; from then on the marks decide. Returns false when the gate is forced to this state
-- already, or is to be released and is not forced. A change is a new epoch and a row of `gate_event`; a flip notifies
-- every node. `actor` is recorded in the history. Raises TG005 for an unknown gate, TG007 for an unknown state.
create or replace function tidegate.gate_force(queue text, state text, actor text default null)
  returns boolean language plpgsql security definer as $$
declare
  v_actor_before text := tidegate_internal.set_actor(gate_force.actor);
  v_gate         tidegate.gate;
  v_state_before text;
  v_changed      boolean;
begin
  if gate_force.state not in ('accepting', 'too_many_requests') then
    raise exception using errcode = 'TG007',
      message = format('a gate is accepting or too_many_requests, not "%s"', left(gate_force.state, 100)),
      hint = 'null releases it';
  end if;

  select * into v_gate from tidegate.gate as g where g.name = gate_force.queue for no key update;
  if not found then
    raise exception using errcode = 'TG005', message = format(
        'there is no %s "%s"', case when gate_force.queue like '% %' then 'gate' else 'queue' end,
        left(gate_force.queue, 300)
      ),
      hint = 'select name from tidegate.gate';
  end if;
  -- Null on either side means not forced: the gate as it is, and as it is to be.
  v_changed := case when v_gate.forced then v_gate.state end is distinct from gate_force.state;
  if v_changed then
    v_state_before := v_gate.state;
    v_gate.depth := tidegate_internal.gate_depth(v_gate, v_gate.high_water + 1);
    v_gate.forced := gate_force.state is not null;
    v_gate.state := coalesce(
      gate_force.state, case when v_gate.depth >= v_gate.high_water then 'too_many_requests' else 'accepting' end
    );
    perform tidegate_internal.gate_change(
      v_gate,
      case gate_force.state when 'accepting' then 'forced open' when 'too_many_requests' then 'forced closed'
        else 'released' end,
      v_gate.state <> v_state_before
    );
  end if;
  perform set_config('tidegate.actor', v_actor_before, true);
  return v_changed;
end;
$$;
select tidegate_internal.allow('gate_force', '{admin}');
