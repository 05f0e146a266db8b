-- What every function and procedure of schema `tidegate` does. Internal ones say so: call the others.

-- identity and shapes
comment on function tidegate.uuid_v7 is 'Internal: a time-ordered id (UUID version 7) of an instant.';
comment on function tidegate.uuid_v7_floor is 'Internal: the smallest id of an instant, for ranges over ids.';
comment on function tidegate.canonical is 'Internal: one text for equal JSON, whatever its key order and number form.';
comment on function tidegate.member is 'Internal: what a payload has at a path of member names.';
comment on function tidegate.sort_sets is 'Internal: a payload with the arrays at the given paths in canonical order.';
comment on function tidegate.fingerprint is 'Internal: SHA-256 of the canonical text of a payload.';
comment on function tidegate.error_json is 'Internal: the shape of every error that a request carries.';

-- queues and their messages
comment on function tidegate.queue_table is 'Internal: the quoted name of a queue''s pgmq table.';
comment on function tidegate.queue_sequence is 'Internal: the sequence that numbers a queue''s messages.';
comment on function tidegate.queue_counter is
  'Internal: a queue''s own sequence: pacing (nanoseconds), mark (a message number), due and survey '
  '(microseconds) or hand (a stretch of numbers).';
comment on function tidegate.queue_lock_key is 'Internal: the advisory lock of one queue and purpose.';
comment on function tidegate.message_request_id is
  'The request that a message stands for; null for a message that is none of ours.';
comment on function tidegate.w_retry_ms is
  'How long the attempts of a policy take at most, with the backoffs between them: W_retry, milliseconds.';
comment on function tidegate.w_retry_text is 'Internal: W_retry of a policy with the numbers it is made of.';
comment on function tidegate.adaptive_interval_ms is
  'How long the intervals of a policy''s adaptive timeout are, milliseconds.';
comment on function tidegate.error_class is
  'What sort of trouble an error code stands for: timeout, connect, 5xx, throttled, 4xx or other.';
comment on function tidegate.is_retried is 'Whether a policy''s retry_on lists an error code.';
comment on function tidegate.retry_due is 'Internal: when the next attempt of a stage is due, or null when none fits.';
comment on function tidegate.default_policy is 'Internal: the policy that a new kind comes with, for one of its stages.';
comment on function tidegate.policy_refusal is 'Internal: why a policy cannot hold, or null; the budget and the semantics.';
comment on function tidegate.kind_refusal is 'Internal: why a kind''s deadline cannot hold its policies, or null.';
comment on function tidegate.put_in_force is 'Internal: makes a policy hold, stretched as told; a new version.';
comment on function tidegate.policy_at is 'Internal: the version of a policy under which an attempt began.';
comment on function tidegate.policy_budget is
  'Trigger on policy: refuses one that cannot hold (TG013), puts others in force.';
comment on function tidegate.kind_budget is
  'Trigger on kind and policy, at commit: the deadline of a kind holds its stages one after the other (TG013).';
comment on function tidegate.calls_since is 'The calls of a stage reported after a time, in all; ten minutes back at most.';
comment on function tidegate.breaker_flip is 'Internal: changes a breaker, once, with its event and notification.';
comment on function tidegate.look_at_breaker is
  'Internal: opens a breaker whose window says so, lets an open one try again when its time is over.';
comment on function tidegate.look_at_breakers is 'Maintenance duty: looks at every breaker.';
comment on function tidegate.report_to_breakers is 'Internal: tells breakers what calls have shown.';
comment on function tidegate.kinds_of_queue is 'Internal: the kinds whose requests a queue may hold.';
comment on function tidegate.enter_breakers is 'Internal: which kinds a claim leaves, and which it probes.';
comment on function tidegate.bar_messages is 'Internal: gives back taken messages that a breaker keeps from being called.';
comment on function tidegate.kinds_left is 'Internal: the kinds that a claim takes, or null for all of its queue.';
comment on function tidegate.take_past_breakers is 'Internal: take_messages, past those that a breaker holds back.';
comment on function tidegate.note_probes is 'Internal: counts the probes that a claim takes.';
comment on function tidegate.breaker_bars is 'Whether a stage''s breaker lets none of its requests be called now.';
comment on function tidegate.breakers_wait_ms is 'Internal: for how long breakers hold back all of a queue, milliseconds.';
comment on function tidegate.note_calls is 'Internal: appends what a settle says about its calls, and tells their breakers.';
comment on function tidegate.fold_calls is 'Maintenance duty: folds reported calls by the second and into totals.';
comment on function tidegate.look_at_load is 'Internal: whether a queue is congested.';
comment on function tidegate.learn_times is 'Internal: takes percentile timeouts and hedge delays from what was measured.';
comment on function tidegate.adjust_policies is
  'Maintenance duty: lengthens backoffs while a stage fails or its queue is congested, and undoes it.';
comment on function tidegate.is_held is 'Whether somebody holds a message: leased, and the lease has not run out.';
comment on function tidegate.require_queue is 'Internal: the row of a queue that serves the given stage, else TG005.';
comment on function tidegate.send_messages is
  'Internal: puts a message for each request into a queue, under the numbers given.';
comment on function tidegate.delete_messages is
  'Internal: removes messages from a queue and, if asked, counts them as served.';
comment on function tidegate.raise_mark is 'Internal: moves a queue''s low-water mark up, when nothing waits below.';
comment on function tidegate.raise_due is
  'Internal: notes that every message due before an instant has been dealt with.';
comment on function tidegate.free_messages is 'Internal: gives messages back, visible from the times given.';
comment on function tidegate.take_messages is
  'Internal: locks waiting messages in order and puts them under one lease.';
comment on function tidegate.lock_held is 'Internal: locks the messages that the given leases still hold.';
comment on function tidegate.hold_off_recovery is
  'Internal: lets no request get its lost message back until the transaction ends.';
comment on function tidegate.lock_messages is 'Internal: locks messages by number, whoever holds them.';
comment on function tidegate.lock_requests is 'Internal: locks rows that still name the messages given, in id order.';
comment on function tidegate.messages_of is
  'Internal: which of the messages named exist, whose they are, whether somebody holds them.';
comment on function tidegate.all_messages is
  'The messages of every queue; queue_position reads them with their positions.';
comment on function tidegate.queue_counts is
  'How many messages each queue has, in all, waiting and held, and since when the oldest is in it.';
comment on function tidegate.held_by is 'How many messages each holder holds, queue by queue.';
comment on function tidegate.held_count is 'Internal: how many messages of a queue are held.';
comment on function tidegate.queue_has_waiting is
  'Internal: whether a message at or after the low-water mark may be taken now.';
comment on function tidegate.waiting_before is
  'Internal: how many messages of a queue wait before one of them, or in all; deep ones by the last survey.';
comment on function tidegate.queue_count is
  'Internal: how many messages a queue holds, and how many of them wait, counted as far as a limit.';
comment on function tidegate.queue_depth is
  'Internal: how many messages a queue holds, whatever their state; beyond some thousands, those that wait.';
comment on function tidegate.queue_depth_bound is 'Internal: at most so many messages are in a queue; cheap at any depth.';
comment on function tidegate.try_lock is 'Internal: takes an advisory lock, if it can be had within a time.';
comment on function tidegate.gate_count is 'Internal: how deep it is behind a gate, as far as a limit.';
comment on function tidegate.gate_depth is 'Internal: how deep it is behind a gate; beyond a limit, about.';
comment on function tidegate.gate_changed is
  'Internal: writes the event of a gate''s change, and notifies tidegate_gate of a flip.';
comment on function tidegate.gate_flip is 'Internal: closes or opens a gate whose mark a depth has reached, once.';
comment on function tidegate.look_at_gate is 'Internal: closes or opens a gate when the depth behind it has passed its mark.';
comment on function tidegate.look_at_gates is 'Maintenance duty: closes and opens gates whose marks have been passed unseen.';
comment on function tidegate.leave_gates is
  'Internal: requests that are in no queue any more do not count at the gates of their kind and submitter.';
comment on function tidegate.add_members is 'Internal: makes caps count requests that are in a queue and are not counted.';
comment on function tidegate.remove_members is 'Internal: makes caps not count what is in no queue any more.';
comment on function tidegate.count_members is
  'Maintenance duty: caps count the requests that are in queues, and nothing else; true: go on at once.';
comment on function tidegate.rescan_queue is
  'Maintenance: brings messages back to light that a queue''s marks or a step of the clock hide; returns how many '
  'times.';
comment on function tidegate.survey_stretches is
  'Internal: counts the waiting messages of some stretches of a queue again; returns how many differed.';
comment on function tidegate.survey_queue is
  'Maintenance: counts the waiting messages of a queue by stretches of numbers, so that positions deep in it are cheap; '
  'returns how many stretches had changed, null when somebody else is at it.';
comment on function tidegate.wake is
  'Tells the workers of a queue, if any listen, that there is something to claim; a hint.';
comment on function tidegate.pause is
  'Stops, or with paused => false resumes, claims from one queue or all; returns the queues that changed.';

-- adaptive timeouts
comment on function tidegate.read_timeouts is
  'For workers: the adaptive timeouts of a stage as they are now, with the estimators that all processes share.';
comment on function tidegate.fold_timeouts is
  'For workers: makes an estimate the one that all go on with, and notes the report of its process, unless somebody was '
  'faster; returns whether.';

-- triggers
comment on function tidegate.request_guard is
  'Trigger on request: refuses what transition_rule does not allow (TG001), labels hand edits, sets the times.';
comment on function tidegate.request_history is
  'Trigger on request: records transitions and counts, and whether a response is awaited.';
comment on function tidegate.request_removal is
  'Trigger on request: what belongs to a removed request goes with it; a truncate is refused (TG001).';
comment on function tidegate.queue_storage is
  'Trigger on queue: makes its pgmq table and counters.';
comment on function tidegate.policy_removal is 'Trigger on policy: a policy stays as long as its kind (TG002).';
comment on function tidegate.require_read_committed is
  'Internal: raises TG007 at isolation levels above READ COMMITTED.';
comment on function tidegate.queue_wakes is 'Trigger on queue: wakes the workers when a limit or a pause changes.';
comment on function tidegate.expire_keys is 'Maintenance duty: forgets idempotency keys whose window has passed.';
comment on function tidegate.queue_identity is 'Trigger on queue: name and stage stay (TG005).';
comment on function tidegate.queue_removal is
  'Trigger on queue: drops the storage of a queue that is deleted; refuses while it holds messages (TG005).';
comment on function tidegate.record_config_change is
  'Trigger on every table of configuration: writes config_change, whoever changes it and however.';
comment on function tidegate.policy_version is 'Trigger on policy: counts its changes in version.';
comment on function tidegate.gate_cap is 'Trigger on gate: a new cap counts what is in queues, a closed one that goes opens.';
comment on function tidegate.queue_gate is 'Trigger on queue: gives it a gate.';
comment on function tidegate.kind_queues is
  'Trigger on kind: its queues serve the right stages (TG005), its name stays (TG002).';
comment on function tidegate.kind_policies is 'Trigger on kind: gives it a policy row for each of its stages.';
comment on function tidegate.queue_identity is 'Trigger on queue: its name and stage never change (TG005).';
comment on function tidegate.kind_retention is
  'Trigger on kind and policy: retention is at least the dedup window.';
comment on function tidegate.kind_removal is 'Trigger on kind: one that has requests may not be deleted (TG002).';

-- when to come back
comment on function tidegate.eta_seconds is
  'In how many seconds a request at this place is expected to be answered; pure, times in milliseconds.';
comment on function tidegate.response_backoff_seconds is
  'How many seconds to wait before asking again for a response awaited this long.';
comment on function tidegate.spread_seconds is
  'A whole second between two, at random: callers who are told the same do not come back at once.';
comment on function tidegate.nominal_eta is 'Internal: when to come back, from place, position and nominal times.';
comment on function tidegate.quantile is
  'The time below which a share of equally likely, ascending times lies; null of none.';
comment on function tidegate.cheapest_poll is
  'In how many seconds to poll for something that may take any of the given times: the least mean cost of coming late '
  'and of polls that come too early.';
comment on function tidegate.observed_eta is
  'Internal: when to come back, from what the last minutes showed; null when that is too little.';
comment on function tidegate.submit_etas is 'Internal: when to come back for requests that are being submitted.';
comment on function tidegate.observe is
  'Maintenance: notes what the last minutes showed of every queue and kind; returns how many samples it folded.';
comment on function tidegate.observe_queue is 'Internal: how fast messages leave a queue while some wait.';
comment on function tidegate.observe_kind is 'Internal: how long the answers of a kind take.';
comment on function tidegate.count_polls is
  'Adds what an API node has seen of its callers since it last said so: requests answered, polls, lateness.';
comment on function tidegate.count_submissions is
  'For API nodes: notes the submissions and replays of each kind that a node has let in; appends only.';
comment on function tidegate.eta_inputs is
  'Internal: the limits, the size of the tx queue and the settings that an ETA depends on.';
comment on function tidegate.message_place is
  'Internal: where a message stands: held or not, how many wait before it, when it is due.';
comment on function tidegate.request_outlook is 'All that a poll of one request tells; no row for an unknown id.';
comment on function tidegate.request_position is
  'How many waiting messages stand before a request''s; 0: next, or held; null: in no queue, or unknown.';
comment on function tidegate.request_retry_after is
  'In how many seconds to ask for a request again; 0: it has ended; null: unknown.';
comment on function tidegate.list_requests is
  'One page of a kind''s requests, newest first, in bounded work; the next page begins before next_before.';

-- submitting
comment on function tidegate.submittable_kind is
  'Internal: a kind that requests can be submitted to, else TG002 or TG003.';
comment on function tidegate.gate_rate is
  'Internal: how many messages a queue behind a gate serves per second, as far as anybody knows.';
comment on function tidegate.later_seconds is
  'Internal: in how many seconds enough of a queue''s messages may be served for so many to go.';
comment on function tidegate.gate_wait is
  'Internal: in how many seconds to submit again what the gates have no room for now.';
comment on function tidegate.gate_copy is
  'For API nodes: every gate, whom it lets in, and what it takes to say when to come back.';
comment on function tidegate.enter_gate is 'Internal: the lock under which a strict gate lets submissions in, and its depth.';
comment on function tidegate.admit is 'Internal: how many new requests of a kind the gates let in now.';
comment on function tidegate.sort_out is
  'Internal: of a submission that there is no room for: what is known, what is let in, what is not.';
comment on function tidegate.close_gates is 'Internal: closes the gates that a submission has filled.';
comment on function tidegate.dedup_find_all is
  'Internal: dedup_find for each request of a submission that has a key.';
comment on function tidegate.made_keys is 'Internal: the idempotency keys that a kind makes of payloads that come without one.';
comment on function tidegate.key_bucket is
  'Internal: under which key of its scope a made key is stored: the beginning of its time bucket.';
comment on function tidegate.lock_made_keys is
  'Internal: the locks under which first arrivals of made keys in time buckets come one after the other.';
comment on function tidegate.dedup_find_made is
  'Internal: the request that a made key stands for, in whatever time bucket; TG004 when the payload differs.';
comment on function tidegate.dedup_find is
  'Internal: the request that an idempotency key stands for; TG004 when the payload differs.';
comment on function tidegate.dedup_claim is
  'Internal: makes an idempotency key stand for a request, unless it stands for one already.';
comment on function tidegate.dedup_claim_all is
  'Internal: dedup_claim for each request of a submission that has a key.';
comment on function tidegate.submit_requests is 'Internal: what submit and submit_batch share.';
comment on function tidegate.submit_batch is
  'Submits up to 10000 requests of one kind, all or none; returns a row for each, in order.';
comment on function tidegate.submit_group is
  'Submits up to 10000 unrelated requests of one kind: as submit_batch, but a closed gate refuses each new one by itself.';
comment on function tidegate.submit_batch_once is
  'Submits many requests of one kind, all or none, under one idempotency key: repeated, it is the same batch.';
comment on function tidegate.submit is
  'Submits one request; returns its id, outcome (accepted, replayed or refused), place and when to come back.';
comment on function tidegate.end_requests is
  'Internal: ends requests from outside any lease, and removes their messages.';
comment on function tidegate.cancel is
  'queued or processing to failure: returns cancelled, not_cancellable with the status that forbids it, or unknown.';

-- telling those who wait
comment on function tidegate.watch is
  'Asks whoever ends requests, or with moves also whoever moves them, to announce them for a while; a hint.';
comment on function tidegate.announce is
  'Tells the nodes which requests ended and which only moved; a hint; returns the number of notifications.';
comment on function tidegate.moved_since is
  'Which of these requests are no longer at the transition_no that the caller knows; nulls for one that is gone.';

-- claiming
comment on function tidegate.require_lease_time is
  'Internal: TG007 unless a lease has a length from 0.1 seconds to one day.';
comment on function tidegate.pacing_slots is
  'Internal: how many sends may be reserved now at a rate, and from when on.';
comment on function tidegate.claim_readiness is
  'Takes up to batch queued requests for their check, under a lease; no more at once than the queue''s '
  'max_concurrency.';
comment on function tidegate.claim_tx is
  'processing to tx_in_flight, under a lease: takes up to batch requests to send, no faster than the queue''s '
  'per_seconds; each may start at its send_at.';
comment on function tidegate.reserve_send is
  'Takes one more slot of a tx queue''s rate, for a send whose own has passed and for hedges: when it may start, or how many '
  'milliseconds until to ask again.';
comment on function tidegate.claim_wait_ms is
  'For how many milliseconds nothing of a queue will be claimable, 60000 at most; 0: something is now.';
comment on function tidegate.extend is
  'Prolongs leases that have not run out, to lease_for from now; returns those prolonged.';
comment on function tidegate.still_held is
  'Which of the given leases are still held: the calls of the others are to be dropped. Reads only.';
comment on function tidegate.release is
  'Gives back requests whose check or send has not begun, with their attempt; returns those given back.';

-- settling
comment on function tidegate.backoff is
  'Internal: how long to wait after an attempt: exponential, capped, with jitter.';
comment on function tidegate.settle_passed is
  'queued to processing: the readiness check passed; returns the requests that moved.';
comment on function tidegate.settle_not_yet is
  'Not ready: checked again after a wait, or timed_out after the last attempt; returns what became of each.';
comment on function tidegate.settle_ended is 'Internal: what settle_failed and settle_rejected share.';
comment on function tidegate.settle_failed is
  'queued to failure: the readiness check said never; returns the requests that moved.';
comment on function tidegate.settle_rejected is
  'tx_in_flight to failure: the downstream refused for good; returns the requests that moved.';
comment on function tidegate.settle_retry is
  'tx_in_flight to processing: worth another attempt after a wait, or failure when none is left; returns what '
  'became of each.';
comment on function tidegate.lock_references is 'Internal: takes the locks of downstream references, in stripe order.';
comment on function tidegate.response_refusal is
  'Internal: why a response does not fit a request of this flow; null when it does.';
comment on function tidegate.apply_response is
  'Internal: applies one response, share or verdict to a request that awaits one.';
comment on function tidegate.apply_inbox is
  'Internal: applies the responses that came before their receipt; returns how many.';
comment on function tidegate.settle_receipt is
  'tx_in_flight to receipt_received, or a direct request with its response to completed; returns the requests that '
  'moved.';
comment on function tidegate.respond is
  'Stores a response, share or verdict by id or reference; outcome completed, rejected, stored, duplicate, early or '
  'late.';

-- telling who wants to know
comment on function tidegate.webhook_outbox is
  'Trigger on request: a delivery for each request that ended and whose end somebody wants to know.';
comment on function tidegate.kind_callback is 'Trigger on kind: its callback URL may name allowed hosts only (TG009).';
comment on function tidegate.webhook_host_secret is 'Trigger on webhook_host: the first host brings the first secret.';
comment on function tidegate.webhook_new_secret is 'Internal: a random signing secret.';
comment on function tidegate.webhook_host_port is
  'Internal: host and port of a plain http(s) URL; null for any other text.';
comment on function tidegate.webhook_target is
  'Internal: where a callback URL leads, which entry of the allow-list covers it, why it is refused.';
comment on function tidegate.require_callback is 'Internal: raises TG009 for a callback URL that may not be named.';
comment on function tidegate.set_callback is
  'Names the URL that is told when a request ends; false when it has ended; TG009 for a URL that may not be named.';
comment on function tidegate.submit_with_callback is
  'submit, with the URL that is told when the request ends; a replay keeps the URL of the first submission.';
comment on function tidegate.webhook_secrets is 'Internal: what deliveries to a host are signed with, the latest first.';
comment on function tidegate.webhook_claim is 'For deliverers: deliveries that are due, under a lease, with what to say.';
comment on function tidegate.webhook_settle is
  'For deliverers: what came of one attempt; the delivery''s state, or null when the lease was lost.';
comment on function tidegate.set_kind_callback is
  'By an operator: names the URL that is told when requests of a kind end; null: nobody; returns the one before.';
comment on function tidegate.webhook_host_add is
  'By an operator: lets callback URLs name a host; true when it is new to the list.';
comment on function tidegate.webhook_host_remove is
  'By an operator: takes a host off the list of callback hosts; false when it was not there.';
comment on function tidegate.webhook_secret_rotate is
  'By an operator: a new signing secret, returned only here; the one before signs as well for a while.';
comment on function tidegate.webhook_redeliver is
  'By an operator: delivers the end of a request again; the state its delivery was in, or null when it has none.';
comment on function tidegate.webhook_redeliver_failed is
  'By an operator: delivers what failed again, one batch; go on at next_after.';

-- operators
comment on function tidegate.time_out is
  'By an operator: queued or receipt_received to timed_out; returns the requests that moved.';
comment on function tidegate.fail_tx is
  'By an operator: processing or tx_in_flight to failure, a proof also from receipt_received; returns the requests '
  'that moved.';
comment on function tidegate.fail_internal is
  'By an operator: any live status to failure (internal_error); returns the requests that moved.';
comment on function tidegate.requests_astray is
  'Internal: the reading half of recover: live requests that seem to have lost their message, holder or count.';
comment on function tidegate.recover_queue is 'Internal: the writing half of recover, for one queue.';
comment on function tidegate.recover is
  'One batch of recovery: lost senders back to processing, a message for every live request without one; go on at '
  'next_after.';
comment on function tidegate.stray_messages is
  'Internal: which of these messages stand for no live request of their queue''s stage.';
comment on function tidegate.remove_strays is
  'One batch: deletes messages of a queue that stand for no live request; go on at next_after.';
comment on function tidegate.config_set is
  'Changes one setting by its documented name; returns what changed, from what to what.';
comment on function tidegate.config_set_many is
  'Changes several settings, one JSON object of names and values, all or none; returns what changed.';
comment on function tidegate.config_get is
  'Settings with their values: one by its name, all of a queue or kind, or all there are.';
comment on function tidegate.config_history is
  'Who changed the configuration, when, from what to what; the latest change first.';
comment on function tidegate.config_name is 'The documented name of the setting that is in a column of a row.';
comment on function tidegate.config_value is 'A stored value in the unit of its setting.';
comment on function tidegate.config_answers is 'Internal: whether a setting is meant by a name.';
comment on function tidegate.config_literal is
  'Internal: a setting''s value as its column takes it, or TG007 that says what it should be.';
comment on function tidegate.config_set_backoff is 'Internal: makes the rows of response_backoff exactly these.';
comment on function tidegate.config_key is 'Internal: the values of a row''s primary key, joined by dots.';
comment on function tidegate.note_config_change is
  'Internal: writes the history of one row of configuration, and notifies tidegate_config.';
comment on function tidegate.unknown_setting is 'Internal: raises TG010, with the names there are.';
comment on function tidegate.act_for is
  'Internal: whose changes these are, as the program says; returns who it was before.';
comment on function tidegate.interval_seconds is 'An interval as its seconds, such as 60s.';
comment on function tidegate.gate_force is
  'Holds a gate open or closed by hand (accepting, too_many_requests) or, with null, releases it; returns whether '
  'anything changed.';
comment on function tidegate.cap_set is
  'Lets a kind, or a submitter, have no more than so many requests in queues; returns whether anything changed.';
comment on function tidegate.cap_remove is 'Removes the cap of a kind or submitter, by its name; returns whether there was one.';
comment on function tidegate.gate_overview is 'How gates stand, with the depth behind each now: all, or the one of a name.';
comment on function tidegate.initialise is
  'Makes the queues and kinds of an example, if one is named, and writes the starter set of limits, gates and nominal '
  'times where none are set; returns what it set.';

-- API keys
comment on function tidegate.api_key_guard is
  'Trigger on api_key: numbers every change; keys are never deleted, never become others, and stay revoked (TG007).';
comment on function tidegate.key_create is
  'A new API key, of which only a hash is stored; unchanged when just this key is there already.';
comment on function tidegate.key_revoke is 'Ends an API key; every node refuses it within a second.';
comment on function tidegate.key_changes is
  'For API nodes: the keys that were made or revoked after a version, with their hashes.';

-- maintenance
comment on function tidegate.look_again(text, text, uuid[], tidegate.request_status[]) is
  'Internal: lets the next deadline sweep begin before what this one had to pass over.';
comment on function tidegate.next_due is
  'Internal: the next requests whose deadline has passed, going on from the last sweep.';
comment on function tidegate.expire_by_deadline is
  'Maintenance: queued, processing, tx_in_flight to failure, past deadline_at; one batch.';
comment on function tidegate.expire_by_readiness is
  'Maintenance: queued to timed_out, past readiness_deadline_at; one batch.';
comment on function tidegate.expire_responses is
  'Maintenance: receipt_received to timed_out, when the response is overdue; one batch.';
comment on function tidegate.sweep_inbox is
  'Maintenance: applies or marks late what waits in response_inbox; returns how many it applied.';
comment on function tidegate.expire_webhooks is
  'Maintenance: forgets deliveries that ended longer ago than their retention; returns how many.';
comment on function tidegate.fold_counts is
  'Maintenance: folds the count deltas and forgets old drains; returns how many deltas.';
comment on function tidegate.make_partitions is
  'Maintenance: makes the history partitions of today and the days ahead; returns their names.';
comment on function tidegate.worker_seen is 'A worker says that it is alive, or stopping.';
comment on function tidegate.forget_workers is 'Maintenance: removes workers not seen for a day; returns how many.';
comment on function tidegate.duty_begins is
  'Maintenance: whether this session is to run a duty now; takes its lock to the end of the transaction.';
comment on function tidegate.duty_ends is 'Maintenance: notes that a duty ran, and for how long.';
comment on procedure tidegate.maintain is
  'Runs the maintenance duties that are due; call it on its own, outside a transaction.';

-- contracts and audit
comment on function tidegate.contract_members is 'Internal: what each type of assertion of a contract may say.';
comment on function tidegate.contract_time is
  'Internal: a time of a contract: a number is milliseconds, a text an interval with its unit; null when it is none.';
comment on function tidegate.contract_fingerprint is 'Internal: the fingerprint that a payload of a kind has now.';
comment on function tidegate.contract_keys is 'Internal: what a contract finds among the newest idempotency keys of a kind.';
comment on function tidegate.contract_history is
  'Internal: what a contract finds in the history of a kind''s newest 1000 requests.';
comment on function tidegate.contract_refusal is 'Internal: why something is no assertion of a contract, or null.';
comment on function tidegate.contract_observe is
  'Internal: one member of an assertion against what is there: what was seen, the bound, whether it holds.';
comment on function tidegate.contract_check is
  'Holds a contract, a JSON array of assertions, against the database: a row for each thing asserted, with figures.';
comment on function tidegate.audit_due is 'Internal: by when a request has to leave a status, and by what deadline.';
comment on function tidegate.audit_sends is
  'Internal: the sends of a request, each with the policy it went by and how long it took, milliseconds.';
comment on function tidegate.audit_steps is 'Internal: the steps of a request''s life, held against the rules and bounds.';
comment on function tidegate.audit_whole is 'Internal: what a request''s row and history say as a whole: figures, findings.';
comment on function tidegate.audit_replay is
  'Rebuilds a request''s life from its history and holds each step against the rules and bounds; finding null: sound.';
