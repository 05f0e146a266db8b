-- tidegate.gate_wait: in how many seconds to submit again to a kind whose gate is closed; null when its gates are open
--
-- All queues that the kind will pass count. A closed one asks for the time in which what is above its low-water mark is
-- served, as `eta_seconds` reckons it: a tx queue at its rate, a readiness queue at one second a check. At least a
-- second; of several closed gates the longest. One that an operator holds closed asks for no less than an awaited
-- response does after the same time (see `response_backoff_seconds`).
create or replace function tidegate.gate_wait(p_kind tidegate.kind)
  returns integer
  language plpgsql
  stable
as $$
declare
  v_gate    record;
  v_depth   bigint;
  v_above   numeric;
  v_rate    numeric;
  v_seconds integer;
begin
  for v_gate in
    select
      g.queue, g.low_water, g.forced, g.changed_at, greatest(s.min_seconds, 1) as min_seconds, s.max_seconds, s.safety_margin,
      case when q.paused then 0 when q.stage = 'tx' then q.per_seconds else q.max_concurrency end as rate
    from tidegate.gate as g
    join tidegate.queue as q on q.name = g.queue
    cross join tidegate.setting as s
    where g.queue in (p_kind.readiness_queue, p_kind.tx_queue) and g.state = 'too_many_requests'
  loop
    if v_gate.rate is null then
      v_seconds := greatest(v_seconds, v_gate.min_seconds);
    elsif v_gate.rate = 0 then
      v_seconds := greatest(v_seconds, v_gate.max_seconds);
    else
      v_depth := tidegate.queue_depth(v_gate.queue);
      v_above := greatest(v_depth - v_gate.low_water, 0) * (1 + v_gate.safety_margin);
      v_seconds := greatest(v_seconds, v_gate.min_seconds, least(
        v_gate.max_seconds, div(v_above, v_gate.rate) + sign(mod(v_above, v_gate.rate))
      ));
    end if;
    -- Nobody knows when an operator lets go: ever later.
    if v_gate.forced then
      v_seconds := greatest(v_seconds, least(
        v_gate.max_seconds, tidegate.response_backoff_seconds(clock_timestamp() - v_gate.changed_at)
      ));
    end if;
  end loop;
  return v_seconds;
end;
$$;
