-- What every type, table, column and index of schema `tidegate` holds, in the database itself: psql shows it with \d+.
-- A table's comment says who writes it. The partitions of `request_event` by day carry none of their own.

comment on schema tidegate is
  'Tidegate, a request relay: requests, their queues, limits, policies and history; written through its functions.';

-- types
comment on type tidegate.request_status is
  'Where a request is: queued (waits for or is under its readiness check), processing (may run; waits in its tx '
  'queue), tx_in_flight (a worker holds it for sending), receipt_received (the downstream took it; its response is '
  'awaited), completed (terminal: answered), timed_out (terminal: not ready or not answered in time), failure '
  '(terminal: refused, rejected, cancelled or given up).';
comment on type tidegate.flow is
  'Which statuses a kind passes through: decrypt (readiness check, send, response or shares), proof (send, '
  'verdict), direct (send, response; the receipt may be the response).';
comment on type tidegate.stage is
  'What workers do: readiness (ask whether a request can run; limited by concurrency), tx (send it downstream; '
  'limited by rate).';
comment on type tidegate.lease is
  'What a worker holds: one message of a queue, under the nonce that its claim wrote; every settle names it.';
comment on column tidegate.lease.queue is 'The queue of the message.';
comment on column tidegate.lease.msg_id is 'The number of the message in its queue.';
comment on column tidegate.lease.nonce is
  'The random number of the claim; when the message no longer carries it, the lease is lost.';

comment on type tidegate.eta_terms is
  'What an ETA depends on besides the place and position of a request.';
comment on column tidegate.eta_terms.tx_queue_size is 'Q, messages that wait in the tx queue.';
comment on column tidegate.eta_terms.drain_tps is 'D, sends per second; null: no limit, 0: stopped or paused.';
comment on column tidegate.eta_terms.concurrency is 'C, checks at once; null: no limit, 0: stopped or paused.';
comment on column tidegate.eta_terms.safety_margin is 'M, a share.';
comment on column tidegate.eta_terms.min_seconds is 'The smallest answer.';
comment on column tidegate.eta_terms.max_seconds is 'The largest answer.';
comment on column tidegate.eta_terms.jitter is 'By what share at most an answer is made later, at random.';
comment on type tidegate.admission is 'What a submission finds at its gates.';
comment on column tidegate.admission.room is
  'How many more requests the gates let in; null: no gate is near its mark.';
comment on column tidegate.admission.closed is 'Whether one of them is closed.';
comment on column tidegate.admission.counted is 'The gates whose depth was counted.';
comment on column tidegate.admission.depths is 'Those depths, before the submission.';
comment on column tidegate.admission.waiting is 'How many messages wait in the queue; null: nobody counted.';
comment on type tidegate.eta is 'When to come back for a request.';
comment on column tidegate.eta.seconds is 'In whole seconds.';
comment on column tidegate.eta.spread_to is 'The latest that jitter may make of it, in seconds.';
comment on column tidegate.eta.p50_ms is
  'In how many milliseconds the answer is there as likely as not; null: not known.';
comment on column tidegate.eta.p90_ms is
  'In how many milliseconds the answer is there with a probability of 90 percent; null: not known.';

-- queue
comment on table tidegate.queue is
  'One row per queue, with its limits; written by operators, its pgmq table, counters and gate come with it.';
comment on column tidegate.queue.name is 'Name in lower snake case; the messages are in pgmq.q_NAME; never changes.';
comment on column tidegate.queue.stage is 'The one stage this queue serves; never changes.';
comment on column tidegate.queue.per_seconds is
  'D, sends per second across the fleet, tx queues only; null: no limit, 0: stopped.';
comment on column tidegate.queue.burst is 'How many sends may start at once after a pause; 1: evenly paced.';
comment on column tidegate.queue.max_concurrency is
  'C, requests under check at once across the fleet, readiness queues only; null: no limit, 0: stopped.';
comment on column tidegate.queue.paused is 'Whether claims are stopped; set by tidegate.pause.';
comment on column tidegate.queue.created_at is 'When the queue was added.';

-- gate
comment on table tidegate.gate is
  'One row per queue, which comes with the queue, and one per cap of a kind or submitter, which cap_set makes: marks and '
  'state; submit refuses new work while one on its way is closed.';
comment on column tidegate.gate.name is 'The queue; or ''kind '' and the kind, ''submitter '' and the submitter.';
comment on column tidegate.gate.queue is
  'The queue whose depth the gate watches; null: it caps a kind or a submitter.';
comment on column tidegate.gate.kind is 'The kind whose requests in queues the gate watches.';
comment on column tidegate.gate.submitter is 'The submitter whose requests in queues the gate watches.';
comment on column tidegate.gate.state is 'accepting or too_many_requests.';
comment on column tidegate.gate.mode is
  'strict (the depth is never to pass high_water) or soft (it may, by the submissions in flight).';
comment on column tidegate.gate.high_water is
  'The depth, in messages, at which the gate closes.';
comment on column tidegate.gate.low_water is 'The depth, in messages, at which it opens again.';
comment on column tidegate.gate.depth is 'The depth, in messages, at the last change of state; not a live count.';
comment on column tidegate.gate.epoch is 'How many times the state has changed, or was taken or released by hand.';
comment on column tidegate.gate.forced is 'Whether an operator holds the state by hand.';
comment on column tidegate.gate.changed_at is 'When the state last changed.';

-- gate_member
comment on table tidegate.gate_member is
  'The requests in queues of kinds and submitters that have a gate: what these gates count.';
comment on column tidegate.gate_member.gate is 'The gate.';
comment on column tidegate.gate_member.request_id is 'The request.';
comment on index tidegate.gate_queue_has_one is 'Serves the rule that a queue has one gate.';
comment on index tidegate.gate_kind_has_one is 'Serves the rule that a kind has one gate.';
comment on index tidegate.gate_submitter_has_one is 'Serves the rule that a submitter has one gate.';
comment on index tidegate.gate_member_request_idx is 'Serves requests that leave the queues.';

-- gate_round
comment on table tidegate.gate_round is 'One row: how far count_members has come round all messages and all members.';
comment on column tidegate.gate_round.only_row is 'Always true: there is one row.';
comment on column tidegate.gate_round.queue is 'The queue whose messages it looks at.';
comment on column tidegate.gate_round.msg_id is 'The message that it has come to there.';
comment on column tidegate.gate_round.gate is 'The gate whose members it looks at.';
comment on column tidegate.gate_round.request_id is 'The member that it has come to there.';
comment on column tidegate.gate_round.is_new is 'Whether a cap was made since it began this round: then it hurries.';

-- gate_event
comment on table tidegate.gate_event is
  'Append-only: one row per change of a gate''s state, or of who holds it; written by gate_force.';
comment on column tidegate.gate_event.id is 'Ascends in the order in which changes were made.';
comment on column tidegate.gate_event.gate is 'The name of the gate.';
comment on column tidegate.gate_event.epoch is 'Which change of this gate it was, from 1.';
comment on column tidegate.gate_event.state is 'The state it changed to.';
comment on column tidegate.gate_event.depth is 'The depth at the change, in messages.';
comment on column tidegate.gate_event.cause is 'Why it changed.';
comment on column tidegate.gate_event.actor is 'The database user in whose session it changed.';
comment on column tidegate.gate_event.at is 'When it changed.';
comment on column tidegate.gate_event.on_behalf_of is
  'For whom, as the program that made the change says: an API key''s name, an operating system user; null: it does not.';

-- config_change
comment on table tidegate.config_change is
  'Append-only: who changed the configuration, one row per column that changed, however it was changed; written by '
  'triggers.';
comment on column tidegate.config_change.id is 'Ascends in the order in which changes were made.';
comment on column tidegate.config_change.at is 'When.';
comment on column tidegate.config_change.actor is 'The database user in whose session it changed.';
comment on column tidegate.config_change.on_behalf_of is
  'For whom, as the program that made the change says (tidegate.actor): an API key''s name, an operating system user; '
  'null: it does not.';
comment on column tidegate.config_change.operation is 'What was done to the row: insert, update or delete.';
comment on column tidegate.config_change.table_name is 'The table.';
comment on column tidegate.config_change.row_key is
  'The row: the values of its primary key, joined by dots; empty in a table with one row.';
comment on column tidegate.config_change.column_name is 'The column.';
comment on column tidegate.config_change.old_value is 'What it held, as text; null: nothing, or the row is new.';
comment on column tidegate.config_change.new_value is 'What it holds, as text; null: nothing, or the row is gone.';

-- kind
comment on table tidegate.kind is
  'One row per kind of request: its flow, queues, nominal times and deadlines; written by operators.';
comment on column tidegate.kind.name is 'Name in lower snake case; never changes.';
comment on column tidegate.kind.flow is
  'Which statuses its requests pass through; copied onto each request at submit.';
comment on column tidegate.kind.readiness_queue is
  'The queue in which new requests wait for their check; decrypt flows only.';
comment on column tidegate.kind.tx_queue is 'The queue in which requests wait to be sent.';
comment on column tidegate.kind.response_threshold is
  'How many shares complete a request; 1: a single response; above 1 for decrypt flows only; copied at submit.';
comment on column tidegate.kind.readiness_ms is
  'R, the nominal time of a readiness check, milliseconds; required for decrypt flows before submitting.';
comment on column tidegate.kind.processing_ms is
  'P, the nominal time from send to response, milliseconds; required before submitting.';
comment on column tidegate.kind.tx_confirmation_ms is
  'T, the nominal time of a send, milliseconds; required before submitting.';
comment on column tidegate.kind.eta is
  'nominal: ETAs come from the configured times; observed is reserved and not acted on yet.';
comment on column tidegate.kind.readiness_timeout is
  'How long a new request may stay queued before it ends as timed_out; fixed on the request at submit.';
comment on column tidegate.kind.deadline is
  'How long a new request may take until its receipt before it ends in failure; fixed on the request at submit.';
comment on column tidegate.kind.response_timeout is
  'How long a response is awaited after the receipt before the request ends as timed_out.';
comment on column tidegate.kind.retention is
  'For how long requests are kept that have ended, the dedup window of stage tx at least; null: for good.';
comment on column tidegate.kind.callback_url is
  'Who is told when a request of this kind ends, unless the request names a URL of its own; null: nobody.';
comment on column tidegate.kind.key_mode is
  'What makes the idempotency key of a request that comes without one: caller: nothing does; natural: the values at key_paths; '
  'proxy: the whole payload and the submitter.';
comment on column tidegate.kind.key_paths is
  'Natural keys: which members of the payload make the key, each a path of names joined by dots, such as order.id.';
comment on column tidegate.kind.key_bucket is
  'Proxy keys: the time bucket that is part of the key; duplicates on both sides of its edge are found all the same; null: none.';
comment on column tidegate.kind.set_paths is
  'Which arrays of the payload are sets, each a path of names joined by dots: the order of their elements makes no difference.';
comment on column tidegate.kind.created_at is 'When the kind was added.';

-- policy
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
  'After how many milliseconds without an answer a second call is started; null: after the 95th percentile of latencies.';
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
  'For timeout_mode adaptive: which share of calls may time out, above 0 to 0.5; null: no target, a timeout that was too short '
  'is doubled.';
comment on column tidegate.policy.adaptive_interval_ms is
  'For timeout_mode adaptive: how often the failure rate is judged, milliseconds, above timeout_ms; null: 5000, or twice '
  'timeout_ms if that is more.';
comment on column tidegate.policy.adaptive_k_margin is
  'For timeout_mode adaptive: how many times four deviations the timeout is above the mean latency, to begin with; it stays so '
  'without adaptive_slo.';
comment on column tidegate.policy.version is
  'How many times the policy has been changed, plus one; counted by a trigger.';

-- policy_in_force, policy_change
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

-- call_sample
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
comment on index tidegate.call_sample_kind_stage_at_idx is 'Serves looks at the calls of a time, past those folded already.';

-- call_second
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

-- call_total
comment on table tidegate.call_total is 'Calls in all, one row per kind and stage; written by maintenance.';
comment on column tidegate.call_total.kind is 'The kind.';
comment on column tidegate.call_total.stage is 'The stage.';
comment on column tidegate.call_total.requests is 'Calls that were the first attempt of their request.';
comment on column tidegate.call_total.calls is 'Calls reported: attempts, hedges not counted.';
comment on column tidegate.call_total.failures is 'Calls that failed: timeouts, no connection, 5xx; no refusals.';
comment on column tidegate.call_total.timeouts is 'Calls that took too long.';
comment on column tidegate.call_total.retries is 'Calls that will be made again.';
comment on column tidegate.call_total.hedges is 'Further calls made for the same attempts.';

-- breaker
comment on table tidegate.breaker is
  'One row for each policy with a breaker; written by claims, settles and maintenance.';
comment on column tidegate.breaker.kind is 'The kind.';
comment on column tidegate.breaker.stage is 'The stage.';
comment on column tidegate.breaker.state is
  'closed (calls go), open (none does, until open_until), half_open (a few go, as probes).';
comment on column tidegate.breaker.epoch is 'Counts its changes.';
comment on column tidegate.breaker.changed_at is 'When it last changed.';
comment on column tidegate.breaker.open_until is 'When it may be tried again; null unless open.';
comment on column tidegate.breaker.probes is 'Half open: calls let through that are under way or have succeeded.';
comment on column tidegate.breaker.successes is 'Half open: probes that have succeeded.';
comment on column tidegate.breaker.probe_until is 'When probes that nobody has reported count as lost.';
comment on table tidegate.breaker_event is 'Append-only: every change of a breaker, with its figures.';
comment on column tidegate.breaker_event.id is 'Counts events.';
comment on column tidegate.breaker_event.kind is 'The kind.';
comment on column tidegate.breaker_event.stage is 'The stage.';
comment on column tidegate.breaker_event.epoch is 'The breakers epoch from here on.';
comment on column tidegate.breaker_event.state is 'The state from here on.';
comment on column tidegate.breaker_event.cause is
  'error rate, latency, open time over, probe failed, probes succeeded.';
comment on column tidegate.breaker_event.figures is 'The figures it judged by.';
comment on column tidegate.breaker_event.at is 'When.';
comment on index tidegate.breaker_event_kind_stage_at_idx is 'Serves the share of time for which a breaker was open.';
comment on type tidegate.breakers_seen is 'What a claim finds at the breakers of its stage.';
comment on column tidegate.breakers_seen.shut is 'Kinds that it leaves.';
comment on column tidegate.breakers_seen.shut_until is 'Until when, each.';
comment on column tidegate.breakers_seen.probing is 'Kinds that it takes probes of.';
comment on column tidegate.breakers_seen.free is 'How many, each.';
comment on column tidegate.breakers_seen.room is 'How many requests at most in all; null: no bound.';

-- timeout_estimator, timeout_report
comment on table tidegate.timeout_estimator is
  'One row for each adaptive timeout that something was folded into: what the fleet has learned; written by fold_timeouts. It '
  'stays when its policy leaves adaptive mode, and is where it goes on when it comes back.';
comment on column tidegate.timeout_estimator.kind is 'The kind.';
comment on column tidegate.timeout_estimator.stage is 'The stage.';
comment on column tidegate.timeout_estimator.version is
  'How many times something was folded in; who comes with another version has been overtaken.';
comment on column tidegate.timeout_estimator.state is
  'normal (the timeout follows what is measured) or high_load (it is held at the best case, so that fewer calls are under way).';
comment on column tidegate.timeout_estimator.srtt_ns is
  'Smoothed latency, nanoseconds; null: nothing was measured, or not since high load began.';
comment on column tidegate.timeout_estimator.rttvar_ns is 'Its smoothed deviation, nanoseconds.';
comment on column tidegate.timeout_estimator.srto_ns is 'The smoothed timeout, nanoseconds.';
comment on column tidegate.timeout_estimator.k_margin is
  'How many times four deviations the timeout is above the smoothed latency.';
comment on column tidegate.timeout_estimator.timeout_ns is 'The timeout that whoever starts from here begins with, nanoseconds.';
comment on column tidegate.timeout_estimator.failure_rate is
  'Share of calls that timed out, as the last closed interval judged it; null: there were too few yet, or high load has ended '
  'after its twelve.';
comment on column tidegate.timeout_estimator.load_rps is
  'Calls begun per second in the last closed interval, by all processes; null: none was closed.';
comment on column tidegate.timeout_estimator.min_ns is
  'The shortest answer of the current window of some intervals, nanoseconds.';
comment on column tidegate.timeout_estimator.min_before_ns is 'The shortest answer of the window before it, nanoseconds.';
comment on column tidegate.timeout_estimator.usual_ns is
  'The shortest mean of an interval of the current window in which three of four calls were answered, nanoseconds; null: none.';
comment on column tidegate.timeout_estimator.usual_before_ns is 'Likewise of the window before it, nanoseconds.';
comment on column tidegate.timeout_estimator.min_age is 'How many intervals are in the current window.';
comment on column tidegate.timeout_estimator.high_load_intervals is 'For how many intervals high load has lasted.';
comment on column tidegate.timeout_estimator.high_load_rps is
  'The most calls begun per second in an interval since high load began; null until one is closed, and unless in high load.';
comment on column tidegate.timeout_estimator.interval_no is 'How many intervals are closed.';
comment on column tidegate.timeout_estimator.began_at is 'When the open interval began.';
comment on column tidegate.timeout_estimator.requests is 'Calls begun in the open interval, as far as folded.';
comment on column tidegate.timeout_estimator.responses is
  'Calls that were answered or timed out since the failure rate was last judged, as far as folded.';
comment on column tidegate.timeout_estimator.failures is 'Those of them that timed out.';
comment on column tidegate.timeout_estimator.late is
  'Those of them that were answered, and that the next narrower margin would have cut off.';
comment on column tidegate.timeout_estimator.sum_ns is 'How long they took together, nanoseconds.';
comment on column tidegate.timeout_estimator.updated_at is 'When something was last folded in.';
comment on table tidegate.timeout_report is
  'What each process last folded into an estimator; written by fold_timeouts, kept for an hour, or two intervals if '
  'that is longer.';
comment on column tidegate.timeout_report.kind is 'The kind.';
comment on column tidegate.timeout_report.stage is 'The stage.';
comment on column tidegate.timeout_report.worker is 'The process.';
comment on column tidegate.timeout_report.sequence is
  'The process''s own number of this report: who does not know whether a fold has arrived finds it here.';
comment on column tidegate.timeout_report.at is 'When it was folded.';
comment on column tidegate.timeout_report.requests is 'Calls begun.';
comment on column tidegate.timeout_report.responses is 'Calls that were answered or timed out.';
comment on column tidegate.timeout_report.failures is 'Those of them that timed out.';
comment on column tidegate.timeout_report.min_ns is 'The shortest answer, nanoseconds; null: there was none.';
comment on column tidegate.timeout_report.mean_ns is 'How long they took on average, nanoseconds; null: there was none.';
comment on column tidegate.timeout_report.deviation_ns is 'How far they were from the smoothed latency on average, nanoseconds.';
comment on column tidegate.timeout_report.load_rps is 'Calls begun per second.';
comment on column tidegate.timeout_report.in_flight is 'Calls under way.';
comment on column tidegate.timeout_report.reported is 'Calls that were answered or timed out, in all of its reports.';

-- queue_load
comment on table tidegate.queue_load is
  'One row per queue: what came to it and what left it; written by maintenance.';
comment on column tidegate.queue_load.queue is 'The queue.';
comment on column tidegate.queue_load.at is 'When it was last looked at.';
comment on column tidegate.queue_load.last_id is 'The number of its newest message then.';
comment on column tidegate.queue_load.congested is 'Whether at least as much came as could leave, and some waits.';
comment on column tidegate.queue_load.rho is 'What came since the look before, over what could leave.';

-- setting
comment on table tidegate.setting is
  'One row: what holds for every kind; written by operators and tidegate.initialise.';
comment on column tidegate.setting.only_row is 'Always true: there is one row.';
comment on column tidegate.setting.min_seconds is
  'The smallest Retry-After of a request on its way to its receipt, seconds.';
comment on column tidegate.setting.max_seconds is
  'The largest Retry-After of a request on its way to its receipt, seconds; also the answer while a queue is '
  'stopped.';
comment on column tidegate.setting.jitter is
  'By what share at most refusals and observed ETAs are told later, at random, so that callers spread out; 0: not at all.';
comment on column tidegate.setting.safety_margin is
  'M, the share added to every estimate, 0 to 1; required before submitting.';
comment on column tidegate.setting.heal_window is
  'Over what time the rates are taken by which policies adjust themselves.';
comment on column tidegate.setting.heal_pause is 'The least time between two such adjustments of one policy.';
comment on column tidegate.setting.initialised_at is 'When tidegate.initialise first ran; null: never.';

-- response_backoff
comment on table tidegate.response_backoff is
  'B(E): how long to wait before asking again for an awaited response; written by operators.';
comment on column tidegate.response_backoff.from_elapsed is
  'The row counts from this long after the receipt, until the next row does.';
comment on column tidegate.response_backoff.seconds is 'The Retry-After, seconds.';

-- transition_rule
comment on table tidegate.transition_rule is
  'The state machine as rows: what is not here is impossible; written by migrate.';
comment on column tidegate.transition_rule.flow is 'The flow the rule belongs to.';
comment on column tidegate.transition_rule.from_status is 'The status before; null: the request is new.';
comment on column tidegate.transition_rule.to_status is 'The status after.';
comment on column tidegate.transition_rule.cause is 'Why a request may take this step; several causes may share one.';
comment on index tidegate.transition_rule_is_listed_once is
  'Serves the guard, which looks for (flow, from, to); no rule twice.';
comment on index tidegate.transition_rule_entry_is_listed_once is 'No entry rule twice.';

-- request
comment on table tidegate.request is
  'One row per request: the truth about it; written by Tidegate''s functions, checked by its guard.';
comment on column tidegate.request.id is 'The caller''s job_id: a UUID version 7 made here, so ids ascend with time.';
comment on column tidegate.request.kind is 'Its kind; never changes.';
comment on column tidegate.request.flow is 'Its kind''s flow at submit; never changes.';
comment on column tidegate.request.req_status is 'Where it is now.';
comment on column tidegate.request.previous_status is
  'Its status before the last update of this row; the guard keeps it for the history.';
comment on column tidegate.request.transition_no is 'How many transitions it has made, its entry included.';
comment on column tidegate.request.cause is 'Why it made the last one; hand_edit: somebody updated the row.';
comment on column tidegate.request.readiness_attempt is 'Readiness checks begun; one given back is not counted.';
comment on column tidegate.request.tx_attempt is 'Sends begun; one given back unsent is not counted.';
comment on column tidegate.request.readiness_waits is
  'How many of its checks said "not yet"; they use no attempt of the policy.';
comment on column tidegate.request.checks_failing_since is
  'When the first of the checks began that have failed in a row; null while the last one answered.';
comment on column tidegate.request.tx_unsent is
  'How many of its sends certainly did not leave; they use no attempt of the policy.';
comment on column tidegate.request.response_threshold is 'How many shares complete it; its kind''s at submit.';
comment on column tidegate.request.queue is 'The queue of its current message; null when it has none.';
comment on column tidegate.request.msg_id is
  'The number of its current message; a message counts only while its request names it.';
comment on column tidegate.request.submitted_at is 'When it was submitted.';
comment on column tidegate.request.deadline_at is
  'When it ends in failure if it has no receipt by then; fixed at submit.';
comment on column tidegate.request.readiness_deadline_at is
  'When it times out if it is still queued; fixed at submit; decrypt flows only.';
comment on column tidegate.request.queued_at is 'When it last entered queued.';
comment on column tidegate.request.processing_at is 'When it last entered processing.';
comment on column tidegate.request.tx_in_flight_at is 'When it last entered tx_in_flight.';
comment on column tidegate.request.receipt_received_at is 'When it entered receipt_received.';
comment on column tidegate.request.finished_at is 'When it ended.';
comment on column tidegate.request.worker is
  'The worker that claimed it last; null before, and after a check given back or put off.';
comment on column tidegate.request.submitter is 'Who submitted it, as the caller said.';
comment on column tidegate.request.reference is 'The downstream''s name for it, from the receipt.';
comment on column tidegate.request.eta_seconds is 'In how many seconds its caller was told to come back, at submit.';
comment on column tidegate.request.eta_p90_ms is
  'In how many milliseconds its caller was told to find the answer with a probability of 90 percent; null: was not told.';
comment on column tidegate.request.payload is 'What the caller submitted; never changed by Tidegate.';
comment on column tidegate.request.response is 'The downstream''s answer; of shares: {"shares": {part: response}}.';
comment on column tidegate.request.error is
  'Why it failed, timed out or is being tried again: {"code", "message", "retryable"}.';
comment on column tidegate.request.callback_url is
  'Who is told when it ends; null: its kind''s callback_url, if any.';
comment on index tidegate.request_deadline_at_idx is
  'Serves expire_by_deadline: each row is visited about once, when its deadline passes.';
comment on index tidegate.request_readiness_deadline_at_idx is
  'Serves expire_by_readiness: each row is visited about once, when its deadline passes.';
comment on index tidegate.request_kind_id_idx is 'Serves lists of one kind, newest first.';

-- request_event
comment on table tidegate.request_event is
  'Append-only history, one row per transition, partitioned by day of the request; written by a trigger on request.';
comment on column tidegate.request_event.request_id is 'The request.';
comment on column tidegate.request_event.transition_no is 'Which of its transitions this was, from 1.';
comment on column tidegate.request_event.from_status is 'The status before; null: it was submitted.';
comment on column tidegate.request_event.to_status is 'The status after.';
comment on column tidegate.request_event.at is 'When.';
comment on column tidegate.request_event.attempt is 'Checks (into or out of queued) or sends begun by then.';
comment on column tidegate.request_event.cause is 'Why; hand_edit: somebody updated the row.';
comment on column tidegate.request_event.worker is 'The worker that claimed it last.';
comment on column tidegate.request_event.detail is
  'The error of a failure, timeout or retry; of a hand edit: {"session_user"}.';
comment on table tidegate.request_event_default is
  'The part of request_event for requests that no partition by day was made for.';
comment on column tidegate.request_event_default.request_id is 'The request.';
comment on column tidegate.request_event_default.transition_no is 'Which of its transitions this was, from 1.';
comment on column tidegate.request_event_default.from_status is 'The status before; null: it was submitted.';
comment on column tidegate.request_event_default.to_status is 'The status after.';
comment on column tidegate.request_event_default.at is 'When.';
comment on column tidegate.request_event_default.attempt is 'Checks (into or out of queued) or sends begun by then.';
comment on column tidegate.request_event_default.cause is 'Why; hand_edit: somebody updated the row.';
comment on column tidegate.request_event_default.worker is 'The worker that claimed it last.';
comment on column tidegate.request_event_default.detail is
  'The error of a failure, timeout or retry; of a hand edit: {"session_user"}.';

-- awaiting_response
comment on table tidegate.awaiting_response is
  'The requests in receipt_received, so that overdue ones are found; written by a trigger on request.';
comment on column tidegate.awaiting_response.request_id is 'The request.';
comment on column tidegate.awaiting_response.due_at is
  'When it times out: its receipt plus the kind''s response_timeout.';
comment on index tidegate.awaiting_response_due_at_idx is 'Serves expire_responses: the longest overdue first.';

-- request_reference
comment on table tidegate.request_reference is
  'Downstream reference to request; written by settle_receipt, kept as long as the request, for late responses.';
comment on column tidegate.request_reference.reference is
  'The downstream''s name for the request; the first request to bring it keeps it.';
comment on column tidegate.request_reference.request_id is 'The request.';
comment on index tidegate.request_reference_request_id_idx is
  'Serves the inbox, which looks for the references of a request, and the removal of requests.';

-- response_part
comment on table tidegate.response_part is 'Shares of a response, the first of each part counts; written by respond.';
comment on column tidegate.response_part.request_id is 'The request.';
comment on column tidegate.response_part.part is 'The name of the share, such as its sender''s.';
comment on column tidegate.response_part.response is 'The share.';
comment on column tidegate.response_part.received_at is 'When it was stored.';

-- response_inbox
comment on table tidegate.inbox_total is 'One row: counts that outlive their responses.';
comment on column tidegate.inbox_total.expired is 'Responses deleted because no request had their reference.';
comment on column tidegate.inbox_total.only_row is 'Always true.';
comment on table tidegate.response_inbox is
  'Responses that came before their request awaited one, or too late for it; written by respond and settle_receipt.';
comment on column tidegate.response_inbox.id is 'Order of arrival.';
comment on column tidegate.response_inbox.request_id is
  'The request addressed; null when only its reference is known.';
comment on column tidegate.response_inbox.reference is 'The downstream reference addressed, if any.';
comment on column tidegate.response_inbox.part is 'The name of the share, if it is one.';
comment on column tidegate.response_inbox.accept is 'The verdict, if it is one.';
comment on column tidegate.response_inbox.late is
  'False: waits for the receipt; true: could not be applied any more (or does not fit) and is kept to be read.';
comment on column tidegate.response_inbox.received_at is 'When it came.';
comment on column tidegate.response_inbox.response is 'What came.';
comment on index tidegate.response_inbox_early_idx is
  'Finds the next early responses to look at; most rows are late ones.';
comment on index tidegate.response_inbox_request_id_idx is
  'Serves the receipt, which looks for early responses by request.';
comment on index tidegate.response_inbox_reference_idx is
  'Serves the receipt, which looks for early responses by reference.';

-- dedup
comment on table tidegate.dedup is 'Idempotency keys and the request each stands for; written by submit.';
comment on column tidegate.dedup.scope is
  'The kind and submitter within which a caller''s key counts, KIND:SUBMITTER; or a key that the kind has made, natural or proxy '
  'KIND:SUBMITTER HASH.';
comment on column tidegate.dedup.key is
  'The caller''s idempotency key, 1 to 255 characters; of a made key the beginning of its time bucket in UTC, or any time.';
comment on column tidegate.dedup.fingerprint is 'SHA-256 of the payload in canonical form.';
comment on column tidegate.dedup.request_id is 'The request that the key stands for.';
comment on column tidegate.dedup.first_seen is 'When that request was accepted.';
comment on column tidegate.dedup.dedup_window is 'How long the key stands for it: what the policy said then.';
comment on column tidegate.dedup.expires_at is 'Until when the key stands for it and is stored: first_seen + dedup_window.';
comment on index tidegate.dedup_expires_at_idx is 'Finds expired keys, oldest first.';

-- worker
comment on table tidegate.worker is 'Who is alive; written by each worker through worker_seen, rarely.';
comment on column tidegate.worker.name is 'The worker''s name; requests and messages that it holds name it.';
comment on column tidegate.worker.stages is 'The stages it runs.';
comment on column tidegate.worker.queues is 'The queues it drains.';
comment on column tidegate.worker.started_at is 'When it was first seen.';
comment on column tidegate.worker.last_seen_at is 'When it was last seen.';
comment on column tidegate.worker.kinds is 'The kinds that it has a stage for; null: all.';
comment on column tidegate.worker.stopped_at is 'When it said that it is stopping; null: it has not.';

-- maintenance
comment on table tidegate.maintenance is
  'One row per maintenance duty: how often it is due and how far it has come; written by tidegate.maintain.';
comment on column tidegate.maintenance.duty is 'The duty.';
comment on column tidegate.maintenance.period is 'How often it is due.';
comment on column tidegate.maintenance.ran_at is 'When it last began.';
comment on column tidegate.maintenance.took_ms is
  'How long it took then, milliseconds; a duty that takes long runs less often.';
comment on column tidegate.maintenance.cursor_at is
  'Of the deadline sweeps: deadlines before this one have been dealt with.';
comment on column tidegate.maintenance.cursor_id is
  'Of the deadline sweeps: the last request dealt with among those with the same deadline.';

-- request_count_delta, request_count
comment on table tidegate.request_count_delta is
  'Append-only: changes of the counts, per statement; written by a trigger on request, folded by fold_counts.';
comment on column tidegate.request_count_delta.kind is 'The kind.';
comment on column tidegate.request_count_delta.req_status is 'The status.';
comment on column tidegate.request_count_delta.delta is 'How many requests entered it; negative: left it.';
comment on table tidegate.request_count is
  'Requests by kind and status, without the deltas not yet folded; written by fold_counts; read request_overview.';
comment on column tidegate.request_count.kind is 'The kind.';
comment on column tidegate.request_count.req_status is 'The status.';
comment on column tidegate.request_count.requests is 'How many.';

-- queue_drain
comment on table tidegate.queue_drain is
  'Append-only: messages that left a queue because their stage ended them; written by the settles, kept for ten '
  'minutes.';
comment on column tidegate.queue_drain.queue is 'The queue.';
comment on column tidegate.queue_drain.at is 'When.';
comment on column tidegate.queue_drain.drained is 'How many messages at once.';
comment on index tidegate.queue_drain_at_idx is 'Serves queue_drain_rate: the drains of the last minutes.';

-- queue_survey
comment on table tidegate.queue_survey is
  'How many messages wait in each stretch of a deep queue: 16384 consecutive message numbers; written by survey_queue, '
  'up to some seconds old.';
comment on column tidegate.queue_survey.queue is 'The queue.';
comment on column tidegate.queue_survey.stretch is 'The stretch: its first message number, divided by 16384.';
comment on column tidegate.queue_survey.waiting is 'How many of its messages waited when it was last counted.';
comment on column tidegate.queue_survey.waiting_by_block is
  'The same for each 256 numbers of it; fewer than 64 when the queue ends in it.';

comment on column tidegate.queue_drain.held_ms is 'For how long they were held, all together; null: not noted.';

-- finish_sample
comment on table tidegate.finish_sample is
  'Append-only: requests of a kind that one statement ended, how long a few of them took, and how that compares with '
  'what their callers were told; written by a trigger on request, folded by observe after ten seconds.';
comment on column tidegate.finish_sample.kind is 'The kind.';
comment on column tidegate.finish_sample.at is 'When.';
comment on column tidegate.finish_sample.requests is 'How many requests ended.';
comment on column tidegate.finish_sample.answer_ms is
  'Of at most eight of them that were answered: milliseconds from the claim for sending to the end.';
comment on column tidegate.finish_sample.predicted is
  'How many of their callers were told an ETA at submit, and have not cancelled.';
comment on column tidegate.finish_sample.error_ms is
  'By how much later than told they ended, all together; negative: earlier.';
comment on column tidegate.finish_sample.error_abs_ms is 'The same without signs.';
comment on column tidegate.finish_sample.error_bins is
  'How many ended up to -30, -5, -1, 0, 1, 5, 30 seconds later than told, each above the one before, and the rest.';
comment on column tidegate.finish_sample.p90_stated is 'How many were told a time for 90 percent.';
comment on column tidegate.finish_sample.p90_held is 'How many of these ended within it.';
comment on index tidegate.finish_sample_kind_at_idx is 'Serves observe: the latest answers of a kind.';

-- answer_sample
comment on table tidegate.answer_sample is
  'How long the latest answers of each kind took, a thousand rows or so; written by observe.';
comment on column tidegate.answer_sample.kind is 'The kind.';
comment on column tidegate.answer_sample.at is 'When they came.';
comment on column tidegate.answer_sample.answer_ms is
  'Milliseconds from the claim for sending to the end, of at most eight.';
comment on index tidegate.answer_sample_kind_at_idx is 'Serves observe: the latest answers of a kind.';

-- eta_quality_total
comment on table tidegate.eta_quality_total is
  'One row per kind: the finish samples of more than ten seconds ago, summed; written by observe. See eta_quality.';
comment on column tidegate.eta_quality_total.kind is 'The kind.';
comment on column tidegate.eta_quality_total.requests is 'How many requests ended.';
comment on column tidegate.eta_quality_total.predicted is 'How many of their callers were told an ETA at submit.';
comment on column tidegate.eta_quality_total.error_ms is 'By how much later than told they ended, all together.';
comment on column tidegate.eta_quality_total.error_abs_ms is 'The same without signs.';
comment on column tidegate.eta_quality_total.error_bins is 'As in finish_sample.';
comment on column tidegate.eta_quality_total.p90_stated is 'How many were told a time for 90 percent.';
comment on column tidegate.eta_quality_total.p90_held is 'How many of these ended within it.';

-- poll_count
comment on table tidegate.poll_count is
  'One row per kind: what callers did with what they were told; written by the API nodes through count_polls.';
comment on column tidegate.poll_count.kind is 'The kind.';
comment on column tidegate.poll_count.answered is 'Requests whose end a poll has told.';
comment on column tidegate.poll_count.polls is 'Polls of these, that one included.';
comment on column tidegate.poll_count.lateness_ms is 'How long their ends had waited to be asked for, all together.';

-- submission_sample
comment on table tidegate.submission_sample is
  'Append-only: the submissions of a kind that an API node has let in since it last wrote; written through count_submissions.';
comment on column tidegate.submission_sample.kind is 'The kind.';
comment on column tidegate.submission_sample.at is 'When the node wrote.';
comment on column tidegate.submission_sample.submitted is 'Submissions that were accepted or replayed.';
comment on column tidegate.submission_sample.replayed is 'Of these the duplicates, which were answered with an earlier request.';
comment on index tidegate.submission_sample_kind_at_idx is 'Finds the latest, or the oldest, of a kind.';

-- queue_sample
comment on table tidegate.queue_sample is
  'Append-only: the first waiting message of each queue, second by second while something waits; written by observe, '
  'kept for a minute.';
comment on column tidegate.queue_sample.queue is 'The queue.';
comment on column tidegate.queue_sample.at is 'When.';
comment on column tidegate.queue_sample.head is
  'The number of the first waiting message; null: nothing waited, or nothing moved, which tells nothing about the pace.';

-- queue_pace
comment on table tidegate.queue_pace is
  'One row per queue: how fast its messages leave it while some wait; written by observe.';
comment on column tidegate.queue_pace.queue is 'The queue.';
comment on column tidegate.queue_pace.head is 'The number of the first waiting message; null: nothing waits.';
comment on column tidegate.queue_pace.head_since is 'Since when that message is the first.';
comment on column tidegate.queue_pace.still_since is
  'Since when nothing leaves the queue although messages wait; null: it moves, or nothing waits.';
comment on column tidegate.queue_pace.per_second is
  'Messages per second, while some waited, of the last half minute; null: too little was seen.';
comment on column tidegate.queue_pace.held_ms is
  'How long a message is held until its stage ends it, on average of the last five minutes; null: too few were.';
comment on column tidegate.queue_pace.observed_at is 'When this was observed; ETAs use it for ten seconds.';

-- kind_pace
comment on table tidegate.kind_pace is
  'One row per kind: how long its answers take once they are sent for; written by observe.';
comment on column tidegate.kind_pace.kind is 'The kind.';
comment on column tidegate.kind_pace.samples is
  'How many answers of the last ten minutes it is made from, a thousand or so at most.';
comment on column tidegate.kind_pace.answer_ms is
  'Forty equally likely times from the claim for sending to the end, ascending, milliseconds; null: too few samples.';
comment on column tidegate.kind_pace.in_flight is 'How many requests are being sent or await their response.';
comment on column tidegate.kind_pace.in_flight_since is 'Since when there are any.';
comment on column tidegate.kind_pace.still_since is
  'Since when no answer comes although ten were to be expected; null: they come.';
comment on column tidegate.kind_pace.observed_at is 'When this was observed; ETAs use it for ten seconds.';

-- api_key
comment on table tidegate.api_key is
  'One row per key of the HTTP API, live or revoked; written by key_create and key_revoke, never deleted. While it is
  '
  'empty nobody has to show a key, and nodes listen on loopback only.';
comment on column tidegate.api_key.id is
  'Which key it is: the part between the underscores of tg_ID_SECRET; no secret.';
comment on column tidegate.api_key.name is 'What people call it; one live key has it.';
comment on column tidegate.api_key.secret_hash is
  'The SHA-256 of the whole key. Its secret has 256 random bits, so the hash needs to be neither slow nor salted.';
comment on column tidegate.api_key.scopes is
  'What it may do: submit (and see, list and cancel what its submitter submitted), respond (to any request), admin '
  '(everything).';
comment on column tidegate.api_key.submitter is 'Whose requests it submits and sees; several keys may share it.';
comment on column tidegate.api_key.created_at is 'When it was made.';
comment on column tidegate.api_key.created_by is 'The database user who made it.';
comment on column tidegate.api_key.revoked_at is 'When it ended; null: it is live.';
comment on column tidegate.api_key.revoked_by is 'The database user who ended it.';
comment on column tidegate.api_key.version is
  'The number of its last change among all changes of keys, in the order of their commits; given by a trigger.';
comment on index tidegate.api_key_live_name_idx is 'A live name names one key.';
comment on index tidegate.api_key_version_is_used_once is 'Serves key_changes: what changed after a version.';

-- schema_state, schema_history
comment on table tidegate.schema_state is 'One row: what migrate last applied; written by migrate.';
comment on column tidegate.schema_state.only_row is 'Always true: there is one row.';
comment on column tidegate.schema_state.fingerprint is 'Of all migrations and all files below sql/.';
comment on column tidegate.schema_state.version is 'The version of the program that applied them.';
comment on column tidegate.schema_state.applied_at is 'When.';

-- webhook_host
comment on table tidegate.webhook_host is 'The hosts that callback URLs may name; written by operators.';
comment on column tidegate.webhook_host.host is
  'A name, an address or a wildcard (*.example.com: whatever is below it); with a port unless it is the scheme''s own.';
comment on column tidegate.webhook_host.allow_private is
  'Whether it may have private and loopback addresses; link-local ones, where clouds keep their secrets, never.';
comment on column tidegate.webhook_host.created_at is 'When it was allowed.';
comment on column tidegate.webhook_host.created_by is 'The database user who allowed it.';

-- webhook_secret
comment on table tidegate.webhook_secret is
  'What deliveries are signed with; written by webhook_secret_rotate; only the owner reads the secrets themselves.';
comment on column tidegate.webhook_secret.id is 'Ascending: the latest is the largest.';
comment on column tidegate.webhook_secret.host is
  'The entry of webhook_host it belongs to; null: every host that has none of its own.';
comment on column tidegate.webhook_secret.secret is 'The key of the HMAC, as its receiver gets it.';
comment on column tidegate.webhook_secret.created_at is 'When it was made.';
comment on column tidegate.webhook_secret.expires_at is 'When it no longer signs; null: it is the current one.';

-- webhook_policy
comment on table tidegate.webhook_policy is 'One row: how deliveries are tried; written by operators.';
comment on column tidegate.webhook_policy.only_row is 'Always true: there is one row.';
comment on column tidegate.webhook_policy.attempts is
  'Attempts in all, the first included, before a delivery has failed.';
comment on column tidegate.webhook_policy.base_ms is 'The longest wait after the first attempt, milliseconds.';
comment on column tidegate.webhook_policy.factor is
  'By what the longest wait is multiplied with each further attempt; the wait is random up to it.';
comment on column tidegate.webhook_policy.cap_ms is
  'The longest wait of all, milliseconds; a receiver''s Retry-After counts up to it.';
comment on column tidegate.webhook_policy.timeout_ms is 'Timeout of one attempt, milliseconds, connecting included.';
comment on column tidegate.webhook_policy.per_host is
  'Deliveries under way to one host and port at most, whole fleet.';
comment on column tidegate.webhook_policy.retention is
  'How long deliveries that ended are kept, if their request is kept so long.';

-- webhook_delivery
comment on table tidegate.webhook_delivery is
  'The outbox: one row per ended request that somebody is to be told of; written in the transaction that ends it.';
comment on column tidegate.webhook_delivery.request_id is 'The request.';
comment on column tidegate.webhook_delivery.id is
  'The delivery''s own id, the same at every attempt: the receiver''s idempotency key.';
comment on column tidegate.webhook_delivery.url is
  'Where to, as the request or its kind named it when the request ended.';
comment on column tidegate.webhook_delivery.host_port is 'Host and port of url in lower case; ? when it names none.';
comment on column tidegate.webhook_delivery.state is
  'pending; delivered: the receiver answered 2xx; failed: refused, or no attempt is left.';
comment on column tidegate.webhook_delivery.attempt is 'Attempts begun since it was (last) put in line.';
comment on column tidegate.webhook_delivery.due_at is
  'When the next attempt may begin; of one that is under way: when its lease runs out.';
comment on column tidegate.webhook_delivery.nonce is 'The lease of whoever is at it; null: nobody.';
comment on column tidegate.webhook_delivery.last_status is 'The status of the last answer; null: there was none.';
comment on column tidegate.webhook_delivery.last_error is 'What went wrong last; null: nothing, or it was delivered.';
comment on column tidegate.webhook_delivery.created_at is 'When the request ended.';
comment on column tidegate.webhook_delivery.finished_at is 'When it was delivered or failed; null while pending.';
comment on index tidegate.webhook_delivery_due_idx is
  'Serves webhook_claim: host by host, the longest due first, whatever the backlog of another host.';
comment on index tidegate.webhook_delivery_held_idx is 'Serves the bound on deliveries under way to one host.';
comment on index tidegate.webhook_delivery_failed_idx is 'Serves lists of what failed, and delivering it again.';
comment on index tidegate.webhook_delivery_finished_idx is 'Serves expire_webhooks: the longest ended first.';

-- The migration tool makes this table before it runs the first migration.
do $$
begin
  if to_regclass('tidegate.schema_history') is not null then
    comment on table tidegate.schema_history is 'The migrations applied, one row each; written by migrate.';
    comment on column tidegate.schema_history.version is 'The number of the migration.';
    comment on column tidegate.schema_history.name is 'Its name.';
    comment on column tidegate.schema_history.applied_on is 'When it was applied.';
    comment on column tidegate.schema_history.checksum is 'The checksum of its text.';
  end if;
end;
$$;
