-- default_policy: Attempts, backoffs and times of a new kind, for one of its stages.
--
-- Enough attempts to survive an outage of half the kind's deadline (of readiness: of half its own time) when each fails
-- at once, and with timeouts that fit the budget when each takes its whole timeout. Where there is no time for that,
-- one attempt. No timeout is above the latency target of the kind.
create or replace function tidegate.default_policy(
  p_kind tidegate.kind, p_stage tidegate.stage,
  out attempts integer, out base_ms integer, out factor numeric, out cap_ms integer, out jitter_ms integer,
  out timeout_ms integer, out deadline_ms integer, out margin_ms integer
)
  language plpgsql stable as $$
declare
  v_most         constant numeric := 2147483647;
  v_attempts     constant integer := 400;
  v_deadline_ms  constant numeric := least(extract(epoch from p_kind.deadline) * 1000, v_most);
  -- Checks come first, and leave three quarters of the time to sends.
  v_checks_ms    constant numeric := case
    when p_kind.flow = 'decrypt' then least(extract(epoch from p_kind.readiness_timeout) * 1000, v_deadline_ms / 4)
    else 0
  end;
  v_time_ms      constant numeric := case p_stage when 'readiness' then v_checks_ms
    else v_deadline_ms - v_checks_ms end;
  v_outage_ms    constant numeric := case p_stage when 'readiness' then v_checks_ms else v_deadline_ms end / 2;
  v_wait_ms      numeric;
  v_shortest_ms  numeric := 0;
  v_longest_ms   numeric := 0;
begin
  deadline_ms := greatest(2, floor(v_time_ms));
  margin_ms := least(1000, floor(v_time_ms / 60));
  base_ms := least(500, ceil(v_time_ms / 240));
  factor := 2;
  jitter_ms := base_ms / 2;
  cap_ms := greatest(base_ms, least(
    greatest(case p_stage when 'readiness' then 10000 else 60000 end, v_outage_ms / v_attempts), v_time_ms / 3
  ));

  attempts := 1;
  v_wait_ms := base_ms;
  while v_shortest_ms < v_outage_ms * 1.01 loop
    attempts := attempts + 1;
    v_shortest_ms := v_shortest_ms + v_wait_ms - jitter_ms;
    v_longest_ms := v_longest_ms + v_wait_ms + jitter_ms;
    v_wait_ms := least(v_wait_ms * factor, cap_ms);
  end loop;
  timeout_ms := least(
    case p_stage when 'readiness' then 5000 else 10000 end,
    floor((deadline_ms - margin_ms - v_longest_ms) / attempts)
  );
  if timeout_ms < 5 then
    attempts := 1;
    timeout_ms := deadline_ms - margin_ms;
  end if;
  timeout_ms := least(timeout_ms, p_kind.slo_p99_ms);
end;
$$;
select tidegate_internal.allow('default_policy', '{reader,api,worker,admin}');
