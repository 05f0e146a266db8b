-- gate_evaluate: Closes or opens a gate when the depth behind it has passed its mark; returns whether it flipped.
--
-- Every transaction that adds or removes messages calls it afterwards: for gates that are `p_state` accepting after
-- adding, for those that are too_many_requests after removing; maintenance for any (null). Of several transactions that
-- remove messages at once, none would see the removals of the others, and the gate would stay closed; so near the low
-- mark one counts after the other has committed, waiting up to `p_wait`, and the gate opens at the mark. Of all
-- such locks in a transaction only those of queues may be waited for, in the order of their names.
create or replace function tidegate_internal.gate_evaluate(
  p_gate text, p_state text default null, p_wait interval default '500 milliseconds'
)
  returns boolean language plpgsql as $$
declare
  v_near  constant integer := 100;
  v_few   constant integer := 4000;
  v_gate  tidegate.gate;
  v_depth bigint;
begin
  select * into v_gate
  from tidegate.gate as g
  where g.name = p_gate and not g.forced and g.state = coalesce(p_state, g.state);
  -- Above READ COMMITTED a count may be of long ago.
  if not found or current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    return false;
  end if;

  if v_gate.state = 'accepting' then
    v_depth := case
      when v_gate.queue is not null
        then (select r.depth from tidegate_internal.queue_room(v_gate.queue, v_gate.high_water, 1, false) as r)
      else tidegate_internal.gate_depth(v_gate, v_gate.high_water + 1)
    end;
    return tidegate_internal.gate_flip(p_gate, 'too_many_requests', v_depth, v_gate.epoch);
  end if;

  -- Many are not counted before the survey says that the mark may be near.
  if v_gate.queue is not null and v_gate.low_water > v_few
    and (select w.waiting from tidegate_internal.waiting_before(v_gate.queue, array[null::bigint], 256) as w)
      > v_gate.low_water * 1.05
  then
    return false;
  end if;
  if tidegate_internal.gate_count(v_gate, v_gate.low_water + v_near + 1) > v_gate.low_water + v_near then
    return false;
  end if;
  perform tidegate_internal.try_lock(
    tidegate.queue_lock_key(p_gate, 'drain'), false, case when v_gate.queue is null then interval '0' else p_wait end
  );
  v_depth := tidegate_internal.gate_count(v_gate, v_gate.low_water + 1);
  return v_depth <= v_gate.low_water and tidegate_internal.gate_flip(p_gate, 'accepting', v_depth, v_gate.epoch);
end;
$$;
