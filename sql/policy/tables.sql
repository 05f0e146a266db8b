-- What the tables of this folder's subject are for, column by column.

comment on table tidegate.policy is
  'One row per kind and stage: attempts, backoff, timeouts, semantics; comes with the kind, changed by operators.';
comment on column tidegate.policy.kind is 'The kind.';
comment on column tidegate.policy.stage is 'The stage.';
comment on column tidegate.policy.attempts is 'Checks or sends in all, the first included.';
comment on column tidegate.policy.base_ms is 'Backoff after the first attempt, milliseconds.';
comment on column tidegate.policy.factor is 'By what each further backoff is multiplied.';
comment on column tidegate.policy.cap_ms is 'The longest backoff, milliseconds, jitter included.';
comment on column tidegate.policy.jitter_ms is 'Random part of a backoff, up to this many milliseconds more or less.';
comment on column tidegate.policy.timeout_mode is
  'How the timeout of a call is found: fixed (timeout_ms), percentile (of the latest latencies), phased (connect_ms, '
  'first_byte_ms, body_ms), adaptive (by the estimator that the fleet shares). Never above timeout_ms.';
comment on column tidegate.policy.timeout_ms is
  'Longest time of one call, milliseconds; handed to the worker with the claim, and what W_retry is reckoned with.';
comment on column tidegate.policy.percentile is
  'For timeout_mode percentile: which share of the latest calls was faster, between 0 and 1.';
comment on column tidegate.policy.safety_factor is
  'For timeout_mode percentile: by what the percentile is multiplied.';
comment on column tidegate.policy.connect_ms is 'For timeout_mode phased: time to connect, milliseconds.';
comment on column tidegate.policy.first_byte_ms is 'For timeout_mode phased: time to the first byte, milliseconds.';
comment on column tidegate.policy.body_ms is 'For timeout_mode phased: time for the body, milliseconds.';
comment on column tidegate.policy.deadline_ms is
  'Time for the attempts of the stage with their backoffs, milliseconds: W_retry must fit, and no retry begins later.';
comment on column tidegate.policy.margin_ms is 'Part of deadline_ms kept in reserve, milliseconds.';
comment on column tidegate.policy.retry_on is
  'What is worth another attempt: classes (5xx, timeout, connect, throttled, other), error codes, HTTP statuses.';
comment on column tidegate.policy.respect_retry_after is
  'Whether the dependency''s own Retry-After replaces the backoff.';
comment on column tidegate.policy.semantics is
  'at_most_once (a send that may have left is never repeated), at_least_once (it is, after a look for its receipt) or '
  'exactly_once (likewise, and the effect commits with the settle).';
comment on column tidegate.policy.dedup_window is
  'How long an idempotency key stands for its request; the row of stage tx counts.';
comment on column tidegate.policy.span_reorder is 'By how much duplicates may arrive late; at most dedup_window.';
comment on column tidegate.policy.hedge_safe is
  'Whether a call may be made twice at once: readiness checks, sends with a key.';
comment on column tidegate.policy.hedge_after_ms is
  'After how many milliseconds without an answer a second call is started; null: after the 95th percentile of '
  'latencies.';
comment on column tidegate.policy.hedge_max is 'How many further calls at most; 0: no hedging.';
comment on column tidegate.policy.hedge_share is 'The largest share of extra calls, 0 to 1.';
comment on column tidegate.policy.breaker_error_rate is
  'Share of failed calls that opens the breaker, 0 to 1; null, with breaker_latency_ms: no breaker.';
comment on column tidegate.policy.breaker_latency_ms is
  'The breaker opens when at least half of the calls take longer, milliseconds; null: latency opens nothing.';
comment on column tidegate.policy.breaker_samples_min is 'Calls in the window before the breaker judges.';
comment on column tidegate.policy.breaker_window_ms is 'Length of the sliding window, milliseconds.';
comment on column tidegate.policy.breaker_open_ms is 'How long the breaker stays open, milliseconds.';
comment on column tidegate.policy.breaker_probes is
  'Calls let through while half open, across the fleet; when all have succeeded it closes.';
comment on column tidegate.policy.heal_retry_rate is
  'Retries per request, 0 to 1, above which backoffs lengthen by themselves; null: never.';
comment on column tidegate.policy.heal_timeout_rate is
  'Timeouts per request, 0 to 1, above which backoffs lengthen by themselves; null: never.';
comment on column tidegate.policy.stretch_max is 'By what backoffs are multiplied at most while they are lengthened.';
comment on column tidegate.policy.adaptive_min_ms is 'For timeout_mode adaptive: the shortest timeout, milliseconds.';
comment on column tidegate.policy.adaptive_slo is
  'For timeout_mode adaptive: which share of calls may time out, above 0 to 0.5; null: no target, a timeout that was '
  'too short '
  'is doubled.';
comment on column tidegate.policy.adaptive_interval_ms is
  'For timeout_mode adaptive: how often the failure rate is judged, milliseconds, above timeout_ms; null: 5000, or '
  'twice '
  'timeout_ms if that is more.';
comment on column tidegate.policy.adaptive_k_margin is
  'For timeout_mode adaptive: how many times four deviations the timeout is above the mean latency, to begin with; it '
  'stays so '
  'without adaptive_slo.';
comment on column tidegate.policy.version is
  'How many times the policy has been changed, plus one; counted by a trigger.';

comment on table tidegate.policy_in_force is
  'One row per policy: what holds now for attempts that begin; written with every change and by maintenance.';
comment on column tidegate.policy_in_force.kind is 'The kind.';
comment on column tidegate.policy_in_force.stage is 'The stage.';
comment on column tidegate.policy_in_force.version is 'Counts what has been in force; policy_change has them all.';
comment on column tidegate.policy_in_force.since is 'Since when this version holds.';
comment on column tidegate.policy_in_force.stretch is
  'By what backoffs are multiplied while the stage heals; 1: as declared.';
comment on column tidegate.policy_in_force.congested is
  'Whether the queue is congested: backoffs are doubled.';
comment on column tidegate.policy_in_force.attempts is 'As declared.';
comment on column tidegate.policy_in_force.base_ms is 'Backoff after the first attempt, milliseconds, lengthened.';
comment on column tidegate.policy_in_force.factor is 'By what each further backoff is multiplied.';
comment on column tidegate.policy_in_force.cap_ms is 'The longest backoff, milliseconds, lengthened.';
comment on column tidegate.policy_in_force.jitter_ms is 'Random part of a backoff, milliseconds, lengthened.';
comment on column tidegate.policy_in_force.timeout_mode is 'As declared.';
comment on column tidegate.policy_in_force.timeout_ms is
  'Timeout of one call, milliseconds, as its mode has found it; with adaptive ones the bound: the rest is in '
  'timeout_estimator.';
comment on column tidegate.policy_in_force.deadline_ms is 'As declared.';
comment on column tidegate.policy_in_force.margin_ms is 'As declared.';
comment on column tidegate.policy_in_force.retry_on is 'As declared.';
comment on column tidegate.policy_in_force.respect_retry_after is 'As declared.';
comment on column tidegate.policy_in_force.semantics is 'As declared.';
comment on column tidegate.policy_in_force.hedge_after_ms is
  'When a second call is started, milliseconds; null: none is.';
comment on column tidegate.policy_in_force.hedge_max is 'As declared.';
comment on column tidegate.policy_in_force.hedge_share is 'As declared.';
comment on column tidegate.policy_in_force.connect_ms is 'For phased timeouts, milliseconds; null otherwise.';
comment on column tidegate.policy_in_force.first_byte_ms is 'For phased timeouts, milliseconds; null otherwise.';
comment on column tidegate.policy_in_force.body_ms is 'For phased timeouts, milliseconds; null otherwise.';

comment on table tidegate.policy_change is
  'Append-only: each version of a policy, by whom or by what figures it came about; written with policy_in_force.';
comment on column tidegate.policy_change.id is 'Counts changes.';
comment on column tidegate.policy_change.at is 'When.';
comment on column tidegate.policy_change.kind is 'The kind.';
comment on column tidegate.policy_change.stage is 'The stage.';
comment on column tidegate.policy_change.version is 'The version that holds from here on.';
comment on column tidegate.policy_change.cause is
  'declared (somebody changed the policy), retry_rate or timeout_rate (above its threshold), congestion, recovered.';
comment on column tidegate.policy_change.actor is 'Who declared it; null for what maintenance does.';
comment on column tidegate.policy_change.stretch is 'By what backoffs are multiplied in this version.';
comment on column tidegate.policy_change.figures is
  'The figures that brought it about: calls, retry_rate, timeout_rate, congested.';
comment on column tidegate.policy_change.in_force is 'The whole version, as JSON.';
comment on index tidegate.policy_change_kind_stage_version_idx is 'Serves the version that an attempt began under.';

comment on table tidegate.call_sample is
  'Append-only: the calls that one settle reported, one row a kind; folded by maintenance.';
comment on column tidegate.call_sample.kind is 'The kind.';
comment on column tidegate.call_sample.stage is 'The stage.';
comment on column tidegate.call_sample.at is 'When they were settled.';
comment on column tidegate.call_sample.requests is 'Calls that were the first attempt of their request.';
comment on column tidegate.call_sample.calls is 'Calls reported: attempts, hedges not counted.';
comment on column tidegate.call_sample.failures is 'Calls that failed: timeouts, no connection, 5xx; no refusals.';
comment on column tidegate.call_sample.timeouts is 'Calls that took too long.';
comment on column tidegate.call_sample.retries is 'Calls that will be made again.';
comment on column tidegate.call_sample.slow is 'Calls that took longer than breaker_latency_ms.';
comment on column tidegate.call_sample.hedges is 'Further calls made for the same attempts.';
comment on column tidegate.call_sample.latency_ms is
  'How long some of them took that were answered or cut off, milliseconds.';
comment on index tidegate.call_sample_kind_stage_at_idx is
  'Serves looks at the calls of a time, past those folded already.';

comment on table tidegate.call_second is 'Calls by the second, for ten minutes; written by maintenance.';
comment on column tidegate.call_second.kind is 'The kind.';
comment on column tidegate.call_second.stage is 'The stage.';
comment on column tidegate.call_second.at is 'The second.';
comment on column tidegate.call_second.requests is 'Calls that were the first attempt of their request.';
comment on column tidegate.call_second.calls is 'Calls reported: attempts, hedges not counted.';
comment on column tidegate.call_second.failures is 'Calls that failed: timeouts, no connection, 5xx; no refusals.';
comment on column tidegate.call_second.timeouts is 'Calls that took too long.';
comment on column tidegate.call_second.retries is 'Calls that will be made again.';
comment on column tidegate.call_second.slow is 'Calls that took longer than breaker_latency_ms.';
comment on column tidegate.call_second.hedges is 'Further calls made for the same attempts.';
comment on column tidegate.call_second.latency_ms is 'How long some of them took, milliseconds.';

comment on table tidegate.call_total is 'Calls in all, one row per kind and stage; written by maintenance.';
comment on column tidegate.call_total.kind is 'The kind.';
comment on column tidegate.call_total.stage is 'The stage.';
comment on column tidegate.call_total.requests is 'Calls that were the first attempt of their request.';
comment on column tidegate.call_total.calls is 'Calls reported: attempts, hedges not counted.';
comment on column tidegate.call_total.failures is 'Calls that failed: timeouts, no connection, 5xx; no refusals.';
comment on column tidegate.call_total.timeouts is 'Calls that took too long.';
comment on column tidegate.call_total.retries is 'Calls that will be made again.';
comment on column tidegate.call_total.hedges is 'Further calls made for the same attempts.';

comment on table tidegate.queue_load is
  'One row per queue: what came to it and what left it; written by maintenance.';
comment on column tidegate.queue_load.queue is 'The queue.';
comment on column tidegate.queue_load.at is 'When it was last looked at.';
comment on column tidegate.queue_load.last_id is 'The number of its newest message then.';
comment on column tidegate.queue_load.congested is 'Whether at least as much came as could leave, and some waits.';
comment on column tidegate.queue_load.rho is 'What came since the look before, over what could leave.';
