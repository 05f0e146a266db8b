-- tidegate.look_at_gate: closes or opens a gate when the depth behind it has passed its mark; returns whether it flipped
--
-- For everybody who adds or removes messages, in their own transaction, after they have. Of several who remove messages
-- at once, each would see those that the others are about to remove; so near the low-water mark one counts after the
-- other has committed, and the gate opens at the mark. Whoever keeps them waiting for long is passed over: maintenance
-- looks again.
create or replace function tidegate.look_at_gate(p_gate text)
  returns boolean
  language plpgsql
as $$
declare
  v_near  constant integer := 100;
  v_gate  tidegate.gate;
  v_depth bigint;
begin
  select * into v_gate from tidegate.gate as g where g.name = p_gate and not g.forced;
  -- Above READ COMMITTED a count may be of long ago.
  if not found or current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    return false;
  end if;

  if v_gate.state = 'accepting' then
    if v_gate.queue is not null and tidegate.queue_depth_bound(v_gate.queue) < v_gate.high_water then
      return false;
    end if;
    return tidegate.gate_flip(p_gate, 'too_many_requests', tidegate.gate_depth(v_gate, v_gate.high_water + 1));
  end if;

  v_depth := tidegate.gate_depth(v_gate, v_gate.low_water + v_near + 1);
  if v_depth > v_gate.low_water + v_near
    or not tidegate.try_lock(tidegate.queue_lock_key(p_gate, 'drain'), false, interval '100 milliseconds')
  then
    return false;
  end if;
  v_depth := tidegate.gate_depth(v_gate, v_gate.low_water + 1);
  return v_depth <= v_gate.low_water and tidegate.gate_flip(p_gate, 'accepting', v_depth);
end;
$$;
