-- gate_change: Stores the new state of a gate under a new epoch, with its event; notifies every node when it flipped.
--
-- Events outlive their gate: one of the same name goes on counting where the earlier one stopped.
create or replace function tidegate_internal.gate_change(p_gate tidegate.gate, p_cause text, p_flipped boolean)
  returns void language plpgsql as $$
begin
  p_gate.epoch := 1 + greatest(
    p_gate.epoch, (select max(e.epoch) from tidegate.gate_event as e where e.gate = p_gate.name)
  );
  update tidegate.gate as g
  set
    state = p_gate.state, forced = p_gate.forced, depth = p_gate.depth, epoch = p_gate.epoch,
    changed_at = tidegate.clock()
  where g.name = p_gate.name;
  insert into tidegate.gate_event (gate, epoch, state, depth, cause)
  values (p_gate.name, p_gate.epoch, p_gate.state, p_gate.depth, p_cause);
  if p_flipped then
    perform pg_notify('tidegate_gate', json_strip_nulls(json_build_object(
      'queue', p_gate.queue,
      'kind', p_gate.kind,
      'submitter', p_gate.submitter,
      'signal', case p_gate.state when 'accepting' then 'ACCEPTING_REQUESTS' else 'TOO_MANY_REQUESTS' end,
      'depth', p_gate.depth,
      'epoch', p_gate.epoch
    ))::text);
  end if;
end;
$$;
