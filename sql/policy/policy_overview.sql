-- policy_overview: Each policy with its bound W_retry, the version in force, and the probability of success by the
-- calls of the last five minutes.
--
-- p_drop is the share of calls that failed in the last five minutes; p_ok = 1 − p_drop^attempts, and the attempts
-- expected are Σ p_drop^(k−1) for k = 1 … attempts. Null while no call was made.
--
--   kind: The kind.
--   stage: The stage.
--   semantics: As declared.
--   attempts: As declared.
--   timeout_mode: As declared.
--   timeout_ms: As declared.
--   w_retry_ms: Longest time of attempts and backoffs, milliseconds.
--   budget_ms: deadline_ms - margin_ms: what W_retry must not exceed.
--   p_drop: Share of calls that failed.
--   p_ok: 1 - p_drop^attempts: probability that an attempt succeeds.
--   expected_attempts: How many attempts a request takes on average.
--   dedup_window: As declared.
--   version: The version in force.
--   since: Since when.
--   stretch: By what backoffs are multiplied; 1: as declared.
--   congested: Whether the queue is congested.
--   attempts_in_force: The same: nothing takes an attempt away.
--   timeout_ms_in_force: Timeout now, milliseconds; adaptive: the bound.
--   base_ms_in_force: First backoff now, milliseconds.
--   cap_ms_in_force: Longest backoff now, milliseconds.
--   hedge_after_ms_in_force: Hedge delay now, milliseconds; null: none.
--   calls_5m: How many calls these figures are of.
create or replace view tidegate.policy_overview as
select
  p.kind, p.stage, p.semantics, p.attempts, p.timeout_mode, p.timeout_ms,
  tidegate.w_retry_ms(p.attempts, p.timeout_ms, p.base_ms, p.factor, p.cap_ms, p.jitter_ms) as w_retry_ms,
  p.deadline_ms - p.margin_ms as budget_ms,
  d.p_drop,
  round(tidegate.p_ok(d.p_drop, p.attempts), 6) as p_ok,
  round(case when d.p_drop = 1 then p.attempts else tidegate.p_ok(d.p_drop, p.attempts) / (1 - d.p_drop) end, 4)
    as expected_attempts,
  p.dedup_window, f.version, f.since, f.stretch, f.congested, f.attempts as attempts_in_force,
  f.timeout_ms as timeout_ms_in_force, f.base_ms as base_ms_in_force, f.cap_ms as cap_ms_in_force,
  f.hedge_after_ms as hedge_after_ms_in_force, c.calls as calls_5m
from tidegate.policy as p
join tidegate.policy_in_force as f on f.kind = p.kind and f.stage = p.stage
cross join lateral tidegate.calls_since(p.kind, p.stage, tidegate.clock() - interval '5 minutes') as c
cross join lateral (select round(c.failures::numeric / nullif(c.calls, 0), 6) as p_drop) as d
order by p.kind, p.stage;
