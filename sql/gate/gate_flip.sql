-- gate_flip: accepting → too_many_requests at the high mark, too_many_requests → accepting at the low mark; of several
-- calls one flips the gate.
--
-- Returns whether this call did. It does not when the gate is in that state already, is forced, has marks that
-- `p_depth` has not reached, or has changed since `p_epoch`, before which the depth was counted; nor while another
-- transaction changes it: no call waits for a gate's row, because maintenance evaluates every gate each second. One
-- flip is one new epoch, one event and one notification.
create or replace function tidegate_internal.gate_flip(
  p_gate text, p_state text, p_depth bigint, p_epoch bigint default null
)
  returns boolean language plpgsql as $$
declare
  v_gate tidegate.gate;
begin
  select * into v_gate
  from tidegate.gate as g
  where g.name = p_gate and not g.forced and g.state <> p_state and g.epoch = coalesce(p_epoch, g.epoch)
    and case p_state when 'accepting' then p_depth <= g.low_water else p_depth >= g.high_water end
  for no key update skip locked;
  if not found then
    return false;
  end if;
  v_gate.state := p_state;
  v_gate.depth := p_depth;
  perform tidegate_internal.gate_change(
    v_gate, case p_state when 'accepting' then 'low mark' else 'high mark' end, true
  );
  return true;
end;
$$;
