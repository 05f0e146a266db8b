-- gate_changed: Writes the event of a gate's change that was just made, and notifies every node when it flipped.
create or replace function tidegate_internal.gate_changed(p_gate tidegate.gate, p_cause text, p_flipped boolean)
  returns void language plpgsql as $$
begin
  insert into tidegate.gate_event (gate, epoch, state, depth, cause, on_behalf_of)
  values (
    p_gate.name, p_gate.epoch, p_gate.state, p_gate.depth, p_cause,
    left(nullif(current_setting('tidegate.actor', true), ''), 200)
  );
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
