-- tidegate.policy_overview: each policy with its bound W_retry, how it holds now, and with what probability it succeeds
--
-- p_drop is the share of calls that failed in the last five minutes; p_ok = 1 − p_drop^attempts, and the attempts expected
-- are Σ p_drop^(k−1) for k = 1 … attempts. Null while no call was made.
create or replace view tidegate.policy_overview as
select
  p.kind, p.stage, p.semantics, p.attempts, p.timeout_mode, p.timeout_ms,
  tidegate.w_retry_ms(p.attempts, p.timeout_ms, p.base_ms, p.factor, p.cap_ms, p.jitter_ms) as w_retry_ms,
  p.deadline_ms - p.margin_ms as budget_ms,
  d.p_drop,
  round(1 - power(d.p_drop, p.attempts::numeric), 6) as p_ok,
  round(case when d.p_drop = 1 then p.attempts else (1 - power(d.p_drop, p.attempts::numeric)) / (1 - d.p_drop) end, 4)
    as expected_attempts,
  p.dedup_window, f.version, f.since, f.stretch, f.congested, f.attempts as attempts_in_force,
  f.timeout_ms as timeout_ms_in_force, f.base_ms as base_ms_in_force, f.cap_ms as cap_ms_in_force,
  f.hedge_after_ms as hedge_after_ms_in_force, c.calls as calls_5m
from tidegate.policy as p
join tidegate.policy_in_force as f on f.kind = p.kind and f.stage = p.stage
cross join lateral tidegate.calls_since(p.kind, p.stage, clock_timestamp() - interval '5 minutes') as c
cross join lateral (select round(c.failures::numeric / nullif(c.calls, 0), 6) as p_drop) as d
order by p.kind, p.stage;
