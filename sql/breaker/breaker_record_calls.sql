-- breaker_record_calls: Reports finished calls to the breakers of their kinds.
--
-- One element per call: its kind, its outcome (see `record_calls`), whether it was slow, when it was claimed. Half
-- open, only calls claimed since then count, which are the probes: one that fails opens the breaker again, as many good
-- ones as the policy requires close it. A settle locks these rows last.
create or replace function tidegate_internal.breaker_record_calls(
  p_stage tidegate.stage, p_kinds text[], p_outcomes text[], p_slow boolean[],
  p_claimed_at timestamptz[], p_now timestamptz
)
  returns void language plpgsql as $$
declare
  v_breaker record;
  v_enough  boolean;
begin
  for v_breaker in
    select
      b.kind, b.state, b.epoch, p.breaker_probes, count(*) filter (where c.bad) as bad,
      count(*) filter (where c.bad and c.claimed_at >= b.changed_at) as probes_bad,
      count(*) filter (where c.outcome = 'answered' and not c.bad and c.claimed_at >= b.changed_at) as probes_good,
      count(*) filter (where c.outcome = 'void' and c.claimed_at >= b.changed_at) as probes_back
    from tidegate.breaker as b
    join tidegate.policy as p on p.kind = b.kind and p.stage = b.stage
    join (
      select
        u.kind, coalesce(u.outcome, 'answered') as outcome, u.claimed_at,
        coalesce(u.outcome in ('failed', 'timeout', 'unauthorized'), false) or coalesce(u.slow, false) as bad
      from unnest(p_kinds, p_outcomes, p_slow, p_claimed_at) as u(kind, outcome, slow, claimed_at)
    ) as c on c.kind = b.kind
    where b.stage = p_stage
    group by b.kind, b.state, b.epoch, p.breaker_probes
    order by b.kind
  loop
    if v_breaker.state = 'closed' and v_breaker.bad > 0 then
      perform tidegate_internal.breaker_evaluate(v_breaker.kind, p_stage, p_now);
    elsif v_breaker.state = 'half_open' and v_breaker.probes_bad > 0 then
      perform tidegate_internal.breaker_flip(
        v_breaker.kind, p_stage, 'open', v_breaker.epoch, 'probe failed',
        jsonb_build_object('probes_failed', v_breaker.probes_bad), p_now
      );
    elsif v_breaker.state = 'half_open' and v_breaker.probes_good + v_breaker.probes_back > 0 then
      update tidegate.breaker as b
      set
        successes = b.successes + v_breaker.probes_good,
        -- A void probe leaves its place to another.
        probes = greatest(0, b.probes - v_breaker.probes_back)
      where b.kind = v_breaker.kind and b.stage = p_stage and b.epoch = v_breaker.epoch
      returning b.successes >= v_breaker.breaker_probes into v_enough;
      if v_enough then
        perform tidegate_internal.breaker_flip(
          v_breaker.kind, p_stage, 'closed', v_breaker.epoch, 'probes succeeded',
          jsonb_build_object('probes', v_breaker.breaker_probes), p_now
        );
        -- That of a refused credential, if the policy asks for none.
        delete from tidegate.breaker as b
        using tidegate.policy as p
        where b.kind = v_breaker.kind and b.stage = p_stage and b.state = 'closed' and p.kind = b.kind
          and p.stage = b.stage and p.breaker_error_rate is null and p.breaker_latency_ms is null;
      end if;
    end if;
  end loop;
end;
$$;
