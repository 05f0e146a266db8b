-- tidegate.gate_force: holds a queue's gate open or closed by hand, until it is released
--
-- `state` is accepting, too_many_requests, or null to release it: then it accepts, until its marks say otherwise.
-- Returns whether anything changed: not when it is held in this state already, or nobody holds what is to be released.
-- A change is a new epoch and a row of `gate_event`; a flip is told to every node. `actor` is who asked. Raises TG005 for
-- an unknown queue, TG007 for an unknown state.
create or replace function tidegate.gate_force(queue text, state text, actor text default null)
  returns boolean
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
declare
  v_actor_before text := tidegate.act_for(gate_force.actor);
  v_depth        bigint;
  v_gate         tidegate.gate;
  v_state        text := coalesce(gate_force.state, 'accepting');
begin
  perform tidegate.require_queue(gate_force.queue);
  if v_state not in ('accepting', 'too_many_requests') then
    raise exception using
      errcode = 'TG007',
      message = format('a gate is accepting or too_many_requests, not "%s"', left(v_state, 100)),
      hint = 'null releases it';
  end if;
  execute format('select count(*) from %s', tidegate.queue_table(gate_force.queue)) into v_depth;

  select * into v_gate from tidegate.gate as g where g.queue = gate_force.queue for no key update;
  if not found then
    raise exception using errcode = 'TG005', message = format('queue "%s" has no gate', gate_force.queue);
  end if;
  if (gate_force.state is null and not v_gate.forced) or (gate_force.state = v_gate.state and v_gate.forced) then
    perform set_config('tidegate.actor', v_actor_before, true);
    return false;
  end if;

  -- Events outlive their queue: one of the same name goes on counting where the earlier one stopped.
  v_gate.epoch := 1 + greatest(
    v_gate.epoch, (select max(e.epoch) from tidegate.gate_event as e where e.queue = gate_force.queue)
  );
  update tidegate.gate as g
  set
    state = v_state, forced = gate_force.state is not null, epoch = v_gate.epoch, depth = v_depth,
    changed_at = clock_timestamp()
  where g.queue = gate_force.queue;
  insert into tidegate.gate_event (queue, epoch, state, depth, cause, on_behalf_of)
  values (
    gate_force.queue, v_gate.epoch, v_state, v_depth,
    case gate_force.state when 'accepting' then 'forced open' when 'too_many_requests' then 'forced closed' else 'released' end,
    left(nullif(current_setting('tidegate.actor', true), ''), 200)
  );
  if v_state <> v_gate.state then
    perform pg_notify('tidegate_gate', json_build_object(
      'queue', gate_force.queue,
      'signal', case v_state when 'accepting' then 'ACCEPTING_REQUESTS' else 'TOO_MANY_REQUESTS' end,
      'depth', v_depth,
      'epoch', v_gate.epoch
    )::text);
  end if;
  perform set_config('tidegate.actor', v_actor_before, true);
  return true;
end;
$$;
