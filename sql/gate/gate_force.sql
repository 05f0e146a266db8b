-- gate_force: Forces a gate to a state (accepting, too_many_requests) or, with null, releases it; returns whether
-- anything changed.
--
-- `queue` is the gate's name: its queue, 'kind direct' or 'submitter ann'. `state` is accepting, too_many_requests, or
-- null to release it: then it goes by its marks, and is open between them. Returns false when the gate is forced to
-- this state already, or is not forced and should be released. A change is a new epoch and a row of `gate_event`; a
-- flip notifies every node. `actor` is recorded in the history. Raises TG005 for an unknown gate, TG007 for an unknown
-- state.
create or replace function tidegate.gate_force(queue text, state text, actor text default null)
  returns boolean language plpgsql security definer as $$
declare
  v_actor_before text := tidegate_internal.set_actor(gate_force.actor);
  v_depth        bigint;
  v_before       tidegate.gate;
  v_gate         tidegate.gate;
begin
  if gate_force.state not in ('accepting', 'too_many_requests') then
    raise exception using errcode = 'TG007',
      message = format('a gate is accepting or too_many_requests, not "%s"', left(gate_force.state, 100)),
      hint = 'null releases it';
  end if;

  select * into v_before from tidegate.gate as g where g.name = gate_force.queue for no key update;
  if not found then
    raise exception using errcode = 'TG005', message = format(
        'there is no %s "%s"', case when gate_force.queue like '% %' then 'gate' else 'queue' end,
        left(gate_force.queue, 300)
      ),
      hint = 'select name from tidegate.gate';
  end if;
  if (gate_force.state is null and not v_before.forced) or (gate_force.state = v_before.state and v_before.forced) then
    perform set_config('tidegate.actor', v_actor_before, true);
    return false;
  end if;

  v_depth := tidegate_internal.gate_depth(v_before);
  update tidegate.gate as g
  set
    state = coalesce(gate_force.state, case when v_depth >= g.high_water then 'too_many_requests' else 'accepting' end),
    forced = gate_force.state is not null, depth = v_depth, changed_at = tidegate.clock(),
    -- Events outlive their gate: one of the same name goes on counting where the earlier one stopped.
    epoch = 1 + greatest(g.epoch, (select max(e.epoch) from tidegate.gate_event as e where e.gate = g.name))
  where g.name = v_before.name
  returning g.* into v_gate;
  perform tidegate_internal.gate_changed(
    v_gate,
    case gate_force.state when 'accepting' then 'forced open' when 'too_many_requests' then 'forced closed'
      else 'released' end,
    v_gate.state <> v_before.state
  );
  perform set_config('tidegate.actor', v_actor_before, true);
  return true;
end;
$$;
select tidegate_internal.allow('gate_force', '{admin}');
