-- What every view of schema `tidegate` and each of its columns shows.

-- queue_position
comment on view tidegate.queue_position is
  'Every message in every queue, with its position; reads all of them: a second for 200,000. One request: '
  'request_position(id).';
comment on column tidegate.queue_position.queue is 'The queue.';
comment on column tidegate.queue_position.msg_id is 'The number of the message; smaller is served first.';
comment on column tidegate.queue_position.request_id is 'The request it stands for.';
comment on column tidegate.queue_position.waiting is 'Whether it may be taken now.';
comment on column tidegate.queue_position.held is 'Whether a worker holds it under a lease that has not run out.';
comment on column tidegate.queue_position.holder is
  'The worker that took it; null when it was given back or never taken.';
comment on column tidegate.queue_position.queue_position is
  'How many waiting messages stand before it; 0: it is next, or held.';
comment on column tidegate.queue_position.visible_at is
  'When a message that does not wait may be taken: end of its lease, backoff or delayed start.';

-- request_eta
comment on view tidegate.request_eta is
  'Every request, finished ones too: where it stands and when to ask for it again. By id that one is asked for, as by a poll; '
  'as a whole each live request.';
comment on column tidegate.request_eta.id is 'The request.';
comment on column tidegate.request_eta.kind is 'Its kind.';
comment on column tidegate.request_eta.req_status is 'Its status.';
comment on column tidegate.request_eta.queue is 'The queue of its message, if it has one.';
comment on column tidegate.request_eta.position is
  'How many waiting messages stand before it; 0: it is next, or held; null: it is in no queue.';
comment on column tidegate.request_eta.elapsed is 'How long it has been in its status.';
comment on column tidegate.request_eta.retry_after_seconds is 'In how many seconds to ask again; 0: it has ended.';
comment on column tidegate.request_eta.place is
  'readiness_queue, checking, tx_queue, tx_in_flight, awaiting_response or finished.';

-- queue_drain_rate
comment on view tidegate.queue_drain_rate is 'Messages served per second, per queue, over three windows that end now.';
comment on column tidegate.queue_drain_rate.queue is 'The queue.';
comment on column tidegate.queue_drain_rate.per_second_10s is 'Messages per second over the last 10 seconds.';
comment on column tidegate.queue_drain_rate.per_second_1m is 'Messages per second over the last minute.';
comment on column tidegate.queue_drain_rate.per_second_5m is 'Messages per second over the last 5 minutes.';
comment on column tidegate.queue_drain_rate.last_drained_at is
  'When a message was last served; null: not within 5 minutes.';

-- queue_overview
comment on view tidegate.queue_overview is
  'One row per queue: how deep it is, how much is held, how fast it drains, what limits it.';
comment on column tidegate.queue_overview.queue is 'The queue.';
comment on column tidegate.queue_overview.stage is 'The stage it serves.';
comment on column tidegate.queue_overview.paused is 'Whether claims are stopped.';
comment on column tidegate.queue_overview.per_seconds is 'D, sends per second; null: no limit, 0: stopped.';
comment on column tidegate.queue_overview.burst is 'How many sends may start at once after a pause.';
comment on column tidegate.queue_overview.max_concurrency is
  'C, requests under check at once; null: no limit, 0: stopped.';
comment on column tidegate.queue_overview.depth is 'All messages.';
comment on column tidegate.queue_overview.waiting is 'Messages that may be taken now.';
comment on column tidegate.queue_overview.held is 'Messages under a lease that has not run out.';
comment on column tidegate.queue_overview.backing_off is 'Messages that come due later: a backoff or a delayed start.';
comment on column tidegate.queue_overview.per_second_10s is 'Messages served per second over the last 10 seconds.';
comment on column tidegate.queue_overview.per_second_1m is 'Messages served per second over the last minute.';
comment on column tidegate.queue_overview.per_second_5m is 'Messages served per second over the last 5 minutes.';
comment on column tidegate.queue_overview.gate is 'State of its gate: accepting or too_many_requests.';
comment on column tidegate.queue_overview.high_water is 'The depth at which the gate closes.';
comment on column tidegate.queue_overview.low_water is 'The depth at which it opens again.';
comment on column tidegate.queue_overview.oldest_age is
  'How long its oldest message has been in the queue; 0: the queue is empty.';

-- request_overview
comment on view tidegate.request_overview is
  'How many requests of each kind are in each status; from counts, never from a scan of the requests.';
comment on column tidegate.request_overview.kind is 'The kind.';
comment on column tidegate.request_overview.req_status is 'The status.';
comment on column tidegate.request_overview.requests is 'How many.';

comment on column tidegate.queue_overview.unserved is 'Kinds whose requests wait here and that no live worker takes.';

-- worker_overview
comment on view tidegate.worker_overview is 'Every worker known: whether it is alive, and how much it holds.';
comment on column tidegate.worker_overview.name is 'The worker.';
comment on column tidegate.worker_overview.stages is 'The stages it runs.';
comment on column tidegate.worker_overview.queues is 'The queues it drains.';
comment on column tidegate.worker_overview.started_at is 'When it was first seen.';
comment on column tidegate.worker_overview.last_seen_at is 'When it was last seen.';
comment on column tidegate.worker_overview.stopped_at is 'When it said that it is stopping.';
comment on column tidegate.worker_overview.alive is
  'Whether it was seen within the last 30 seconds and has not said that it is stopping.';
comment on column tidegate.worker_overview.held is 'How many messages it holds.';
comment on column tidegate.worker_overview.kinds is 'The kinds that it has a stage for; null: all.';

-- unserved
comment on view tidegate.unserved is 'Kinds whose requests wait in a queue from which no live worker takes them.';
comment on column tidegate.unserved.queue is 'The queue.';
comment on column tidegate.unserved.stage is 'The stage it serves.';
comment on column tidegate.unserved.kind is 'The kind.';
comment on column tidegate.unserved.requests is 'How many of its requests wait, whether put off or not.';
comment on column tidegate.unserved.has_workers is 'Whether live workers take requests of other kinds there.';


-- eta_quality
comment on view tidegate.eta_quality is
  'How good the predictions of each kind were: what callers were told at submit, against when the answer was there.';
comment on column tidegate.eta_quality.kind is 'The kind.';
comment on column tidegate.eta_quality.eta is 'How its ETAs are made at present: nominal or observed.';
comment on column tidegate.eta_quality.requests is 'Finished requests.';
comment on column tidegate.eta_quality.mean_error_seconds is
  'By how much later than told the answer was there, on average; negative: earlier.';
comment on column tidegate.eta_quality.mean_abs_error_seconds is 'The same without signs.';
comment on column tidegate.eta_quality.p90_held_share is
  'Of the callers told a time for 90 percent, the share whose answer was there within it; 0.9 is right.';
comment on column tidegate.eta_quality.polls_per_request is
  'Polls over HTTP until one told the end, on average of the requests whose end a poll has told.';
comment on column tidegate.eta_quality.mean_lateness_seconds is
  'How long an end had waited for the poll that told it, on average.';
comment on column tidegate.eta_quality.predicted is 'Of the finished requests, those whose caller was told an ETA.';
comment on column tidegate.eta_quality.error_seconds_sum is 'All errors together, in seconds: for a histogram''s sum.';
comment on column tidegate.eta_quality.error_bins is
  'How many answers came up to -30, -5, -1, 0, 1, 5, 30 seconds later than told, each above the one before, and the rest.';
comment on column tidegate.eta_quality.p90_stated is 'How many callers were told a time for 90 percent.';
comment on column tidegate.eta_quality.p90_held is 'How many of these had their answer within it.';

-- config
comment on view tidegate.config is
  'Every setting by its documented name, with its value; change it with config_set, or the column itself.';
comment on column tidegate.config.name is 'The documented name, as config_set takes it.';
comment on column tidegate.config.value is 'Its value, in its unit; null: none (no limit, or not set yet).';
comment on column tidegate.config.unit is 'What a value counts; null: it is no quantity.';
comment on column tidegate.config.type is
  'number, boolean, text, interval, list (words with commas) or backoff (from=seconds, with commas).';
comment on column tidegate.config.subject is 'What it belongs to, such as queue tx.';
comment on column tidegate.config.is_default is 'Whether it has the value that a row comes with.';
comment on column tidegate.config.default_value is 'The value that a row comes with; null: none.';
comment on column tidegate.config.comment is 'What it does.';
comment on column tidegate.config.table_name is 'The table that holds it.';
comment on column tidegate.config.row_key is 'The row that holds it: its primary key, joined by dots.';
comment on column tidegate.config.column_name is 'The column that holds it.';

-- config_column
comment on view tidegate.config_column is
  'Which columns are settings: those of the tables of configuration, but for keys and what is counted there.';
comment on column tidegate.config_column.table_name is 'The table.';
comment on column tidegate.config_column.column_name is 'The column.';
comment on column tidegate.config_column.place is 'Where the column stands in its table.';
comment on column tidegate.config_column.type is 'number, boolean, text, interval or list.';
comment on column tidegate.config_column.whole is 'Whether it holds whole numbers only.';
comment on column tidegate.config_column.nullable is 'Whether it may be none.';
comment on column tidegate.config_column.factor is
  'How many of the column''s units make one of the setting''s: 1000 for seconds kept in milliseconds.';
comment on column tidegate.config_column.unit is 'What the setting''s value counts; null: it is no quantity.';
comment on column tidegate.config_column.default_value is 'The column''s default, as text; null: none.';
comment on column tidegate.config_column.comment is 'The column''s comment.';

-- key_list
comment on view tidegate.key_list is 'Every API key ever made, revoked ones too, without its hash.';
comment on column tidegate.key_list.id is 'Which key it is: the part between the underscores of tg_ID_SECRET.';
comment on column tidegate.key_list.name is 'What people call it.';
comment on column tidegate.key_list.scopes is 'What it may do: submit, respond, admin.';
comment on column tidegate.key_list.submitter is 'Whose requests it submits and sees.';
comment on column tidegate.key_list.created_at is 'When it was made.';
comment on column tidegate.key_list.created_by is 'The database user who made it.';
comment on column tidegate.key_list.revoked_at is 'When it ended; null: it is live.';
comment on column tidegate.key_list.revoked_by is 'The database user who ended it.';

-- webhook_overview
comment on view tidegate.webhook_overview is
  'One row per host with deliveries that wait, are under way, or failed and are not forgotten yet.';
comment on column tidegate.webhook_overview.host_port is 'Host and port.';
comment on column tidegate.webhook_overview.waiting is 'Deliveries that wait for their next attempt.';
comment on column tidegate.webhook_overview.under_way is 'Deliveries that somebody is at, or was when it died.';
comment on column tidegate.webhook_overview.failed is 'Deliveries that failed.';
comment on column tidegate.webhook_overview.oldest_age is
  'How long ago the request ended that has waited longest for its delivery; null: none waits.';
comment on column tidegate.webhook_overview.attempt_max is 'The most attempts begun for one that is not delivered yet.';

-- maintenance_overview
comment on view tidegate.maintenance_overview is 'Every maintenance duty: when it last ran, and how late it is.';
comment on column tidegate.maintenance_overview.duty is 'The duty.';
comment on column tidegate.maintenance_overview.period is 'How often it is to run.';
comment on column tidegate.maintenance_overview.ran_at is 'When it last began; null: never.';
comment on column tidegate.maintenance_overview.took_ms is 'How long it took, in milliseconds; null: it never ran.';
comment on column tidegate.maintenance_overview.overdue is
  'For how long it has been overdue, a long duty''s rest included; 0: it is not.';

-- gate_history
comment on view tidegate.gate_history is 'How each gate came to where it is, latest first.';
comment on column tidegate.gate_history.at is 'When it changed.';
comment on column tidegate.gate_history.gate is 'The name of the gate: its queue, ''kind …'' or ''submitter …''.';
comment on column tidegate.gate_history.epoch is 'Which change of this gate it was, from 1.';
comment on column tidegate.gate_history.signal is 'What the nodes were told: ACCEPTING_REQUESTS or TOO_MANY_REQUESTS.';
comment on column tidegate.gate_history.state is 'The state it changed to: accepting or too_many_requests.';
comment on column tidegate.gate_history.depth is 'The depth at the change, in messages.';
comment on column tidegate.gate_history.cause is 'Why: a mark, an operator''s hand, or its removal.';
comment on column tidegate.gate_history.lasted is 'How long it stayed so, or has by now.';
comment on column tidegate.gate_history.is_current is 'Whether it is so still.';
comment on column tidegate.gate_history.actor is 'Who, or in whose database session.';
comment on column tidegate.gate_history.id is 'Ascends in the order in which changes were made.';

-- policies
comment on view tidegate.policy_overview is
  'Each policy: its bound W_retry, what is in force now, and its chance of success by the calls of the last five minutes.';
comment on column tidegate.policy_overview.kind is 'The kind.';
comment on column tidegate.policy_overview.stage is 'The stage.';
comment on column tidegate.policy_overview.semantics is 'As declared.';
comment on column tidegate.policy_overview.attempts is 'As declared.';
comment on column tidegate.policy_overview.timeout_mode is 'As declared.';
comment on column tidegate.policy_overview.timeout_ms is 'As declared.';
comment on column tidegate.policy_overview.w_retry_ms is 'How long the attempts take at most, with their backoffs, milliseconds.';
comment on column tidegate.policy_overview.budget_ms is 'deadline_ms - margin_ms: what W_retry must not exceed.';
comment on column tidegate.policy_overview.p_drop is 'Share of calls that failed.';
comment on column tidegate.policy_overview.p_ok is '1 - p_drop^attempts: with what probability one of the attempts succeeds.';
comment on column tidegate.policy_overview.expected_attempts is 'How many attempts a request takes on average.';
comment on column tidegate.policy_overview.dedup_window is 'As declared.';
comment on column tidegate.policy_overview.version is 'The version in force.';
comment on column tidegate.policy_overview.since is 'Since when.';
comment on column tidegate.policy_overview.stretch is 'By what backoffs are multiplied; 1: as declared.';
comment on column tidegate.policy_overview.congested is 'Whether the queue is congested.';
comment on column tidegate.policy_overview.attempts_in_force is 'The same: nothing takes an attempt away.';
comment on column tidegate.policy_overview.timeout_ms_in_force is
  'Timeout of one call now, milliseconds; of adaptive ones only the bound: estimator_overview has them.';
comment on column tidegate.policy_overview.base_ms_in_force is 'First backoff now, milliseconds.';
comment on column tidegate.policy_overview.cap_ms_in_force is 'Longest backoff now, milliseconds.';
comment on column tidegate.policy_overview.hedge_after_ms_in_force is
  'When a second call starts now, milliseconds; null: none does.';
comment on column tidegate.policy_overview.calls_5m is 'How many calls these figures are of.';
comment on view tidegate.estimator_overview is
  'Every adaptive timeout as all processes share it: one row for each policy in that mode.';
comment on column tidegate.estimator_overview.kind is 'The kind.';
comment on column tidegate.estimator_overview.stage is 'The stage.';
comment on column tidegate.estimator_overview.state is
  'normal, or high_load: the timeout is held at the best case until the load has subsided.';
comment on column tidegate.estimator_overview.srtt_ms is 'Smoothed latency, milliseconds; null: nothing was measured yet.';
comment on column tidegate.estimator_overview.rttvar_ms is 'Its smoothed deviation, milliseconds.';
comment on column tidegate.estimator_overview.srto_ms is 'The smoothed timeout, milliseconds.';
comment on column tidegate.estimator_overview.k_margin is
  'How many times four deviations the timeout is above the smoothed latency.';
comment on column tidegate.estimator_overview.timeout_ms is
  'The timeout as last folded, milliseconds; each process moves its own with every call until the next fold.';
comment on column tidegate.estimator_overview.min_rtt_ms is
  'The shortest answer of the last two windows, milliseconds.';
comment on column tidegate.estimator_overview.usual_rtt_ms is
  'The shortest mean of an interval of the last two windows in which three of four calls were answered, milliseconds: the best '
  'case is three times that, or three times min_rtt_ms where there was none.';
comment on column tidegate.estimator_overview.failure_rate is
  'Share of calls that timed out, as the last closed interval judged it, or of what has been gathered since where it had too '
  'few calls to judge.';
comment on column tidegate.estimator_overview.slo is 'Which share may: it steers the margin; null: no target.';
comment on column tidegate.estimator_overview.load_rps is 'Calls begun per second in the last closed interval.';
comment on column tidegate.estimator_overview.high_load_rps is
  'The most calls begun per second in an interval since high load began; null until one is closed, and unless in high load.';
comment on column tidegate.estimator_overview.high_load_intervals is 'For how many intervals high load has lasted.';
comment on column tidegate.estimator_overview.min_ms is 'The shortest timeout, milliseconds.';
comment on column tidegate.estimator_overview.max_ms is 'The longest timeout, milliseconds: the policy''s timeout_ms.';
comment on column tidegate.estimator_overview.interval_ms is 'How long an interval is, milliseconds.';
comment on column tidegate.estimator_overview.intervals is 'How many are closed.';
comment on column tidegate.estimator_overview.processes is 'How many processes have reported within two intervals.';
comment on column tidegate.estimator_overview.in_flight is 'Calls that they had under way.';
comment on column tidegate.estimator_overview.updated_at is 'When something was last folded in; null: never.';
comment on column tidegate.estimator_overview.version is 'How many times.';
comment on view tidegate.breaker_overview is 'Every breaker, and what its window shows.';
comment on column tidegate.breaker_overview.kind is 'The kind.';
comment on column tidegate.breaker_overview.stage is 'The stage.';
comment on column tidegate.breaker_overview.state is 'closed, open or half_open.';
comment on column tidegate.breaker_overview.changed_at is 'When it last changed.';
comment on column tidegate.breaker_overview.open_until is 'When it may be tried again; null unless open.';
comment on column tidegate.breaker_overview.epoch is 'Counts its changes.';
comment on column tidegate.breaker_overview.probes_under_way_or_done is 'Half open: calls let through.';
comment on column tidegate.breaker_overview.probes_allowed is 'How many may be.';
comment on column tidegate.breaker_overview.window_calls is 'Calls in its window.';
comment on column tidegate.breaker_overview.window_failures is 'Those that failed.';
comment on column tidegate.breaker_overview.window_slow is 'Those that took too long.';
comment on column tidegate.breaker_overview.error_rate is 'Share that failed.';
comment on column tidegate.breaker_overview.trips_at_error_rate is 'At what share it opens.';
comment on column tidegate.breaker_overview.trips_at_latency_ms is 'It opens when half of the calls take longer, milliseconds.';
comment on column tidegate.breaker_overview.open_ratio is 'For what share of the last five minutes it was not closed.';
comment on column tidegate.breaker_overview.last_cause is 'Why it last changed.';
comment on column tidegate.breaker_overview.last_figures is 'By what figures.';
comment on view tidegate.sli is 'Service level indicators of each stage, over the last five minutes.';
comment on column tidegate.sli.kind is 'The kind.';
comment on column tidegate.sli.stage is 'The stage.';
comment on column tidegate.sli.requests is 'Requests whose first attempt was settled.';
comment on column tidegate.sli.calls is 'Calls settled.';
comment on column tidegate.sli.retry_rate is 'Retries per request.';
comment on column tidegate.sli.timeout_rate is 'Timeouts per request.';
comment on column tidegate.sli.error_ratio is 'Share of calls that failed.';
comment on column tidegate.sli.dup_drop_rate is 'Share of submissions over HTTP that were duplicates; at the tx stage.';
comment on column tidegate.sli.p50_ms is 'Median latency of calls, milliseconds.';
comment on column tidegate.sli.p99_ms is '99th percentile of their latency, milliseconds.';
comment on column tidegate.sli.hedges is 'Hedged calls.';
comment on column tidegate.sli.open_ratio is 'For what share of the time the breaker was not closed.';
comment on column tidegate.sli.within_gate is
  'Whether the stage is within its gate: readiness timeouts 0.5 percent, duplicates 1 percent.';
comment on view tidegate.sli_alias is 'The indicators under the names of their source document, Threads.….';
comment on column tidegate.sli_alias.name is 'Such as Threads.retry.rate.';
comment on column tidegate.sli_alias.kind is 'The kind.';
comment on column tidegate.sli_alias.stage is 'The stage.';
comment on column tidegate.sli_alias.value is 'As in sli.';
