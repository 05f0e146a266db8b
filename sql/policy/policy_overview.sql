-- policy_overview: Each policy with its bound W_retry, the version in force, and the probability of success by the
-- calls of the last five minutes.
--
-- p_drop is the share of calls that failed in the last five minutes; p_ok = 1 − p_drop^attempts, and the attempts
-- expected are Σ p_drop^(k−1) for k = 1 … attempts. Null while no call was made.
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
comment on column tidegate.policy_overview.kind is 'The kind.';
comment on column tidegate.policy_overview.stage is 'The stage.';
comment on column tidegate.policy_overview.semantics is 'As declared.';
comment on column tidegate.policy_overview.attempts is 'As declared.';
comment on column tidegate.policy_overview.timeout_mode is 'As declared.';
comment on column tidegate.policy_overview.timeout_ms is 'As declared.';
comment on column tidegate.policy_overview.w_retry_ms is 'Longest time of attempts and backoffs, milliseconds.';
comment on column tidegate.policy_overview.budget_ms is 'deadline_ms - margin_ms: what W_retry must not exceed.';
comment on column tidegate.policy_overview.p_drop is 'Share of calls that failed.';
comment on column tidegate.policy_overview.p_ok is '1 - p_drop^attempts: probability that an attempt succeeds.';
comment on column tidegate.policy_overview.expected_attempts is 'How many attempts a request takes on average.';
comment on column tidegate.policy_overview.dedup_window is 'As declared.';
comment on column tidegate.policy_overview.version is 'The version in force.';
comment on column tidegate.policy_overview.since is 'Since when.';
comment on column tidegate.policy_overview.stretch is 'By what backoffs are multiplied; 1: as declared.';
comment on column tidegate.policy_overview.congested is 'Whether the queue is congested.';
comment on column tidegate.policy_overview.attempts_in_force is 'The same: nothing takes an attempt away.';
comment on column tidegate.policy_overview.timeout_ms_in_force is 'Timeout now, milliseconds; adaptive: the bound.';
comment on column tidegate.policy_overview.base_ms_in_force is 'First backoff now, milliseconds.';
comment on column tidegate.policy_overview.cap_ms_in_force is 'Longest backoff now, milliseconds.';
comment on column tidegate.policy_overview.hedge_after_ms_in_force is 'Hedge delay now, milliseconds; null: none.';
comment on column tidegate.policy_overview.calls_5m is 'How many calls these figures are of.';
