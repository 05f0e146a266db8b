-- Comments on the tables of this folder's subject.

comment on schema tidegate is 'Tidegate, a request relay: tables, views and the functions that write them.';

comment on schema tidegate_internal is 'Functions for those of schema tidegate only; no role may use it.';

comment on type tidegate.request_status is
  'Where a request is: queued (waits for or is under its readiness check), processing (may run; waits in its tx '
  'queue), tx_in_flight (a worker holds it for sending), receipt_received (the downstream took it; its response is '
  'awaited), completed (terminal: answered), timed_out (terminal: not ready or not answered in time), failure '
  '(terminal: refused, rejected, cancelled or given up).';

comment on type tidegate.flow is
  'Which statuses a kind passes through: decrypt (readiness check, send, response or shares), proof (send, '
  'verdict), direct (send, response; the receipt may be the response).';

comment on table tidegate.transition_rule is 'The state machine: every legal transition; written by migrate.';
comment on column tidegate.transition_rule.flow is 'The flow the rule belongs to.';
comment on column tidegate.transition_rule.from_status is 'The status before; null: the request is new.';
comment on column tidegate.transition_rule.to_status is 'The status after.';
comment on column tidegate.transition_rule.cause is 'Why a request may take this step; several causes may share one.';
comment on index tidegate.transition_rule_is_listed_once is 'Serves the guard (flow, from, to); no rule twice.';
comment on index tidegate.transition_rule_entry_is_listed_once is 'No entry rule twice.';

comment on table tidegate.request is 'One row per request, authoritative; written by functions, guarded by triggers.';
comment on column tidegate.request.id is 'The caller''s job_id: a UUID version 7 made here, so ids ascend with time.';
comment on column tidegate.request.kind is 'Its kind; never changes.';
comment on column tidegate.request.flow is 'Its kind''s flow at submit; never changes.';
comment on column tidegate.request.req_status is 'Its current status.';
comment on column tidegate.request.previous_status is 'Status before the last update, for the history trigger.';
comment on column tidegate.request.transition_no is 'How many transitions it has made, its entry included.';
comment on column tidegate.request.cause is 'Why it made the last one; hand_edit: the row was updated by hand.';
comment on column tidegate.request.readiness_attempt is 'Readiness checks begun; one given back is not counted.';
comment on column tidegate.request.tx_attempt is 'Sends begun; one given back unsent is not counted.';
comment on column tidegate.request.readiness_waits is 'Checks that were snoozed; the policy does not count them.';
comment on column tidegate.request.checks_failing_since is 'Start of the current run of failed checks; or null.';
comment on column tidegate.request.tx_unsent is 'Sends that certainly did not leave; not counted by the policy.';
comment on column tidegate.request.response_threshold is 'How many shares complete it; its kind''s at submit.';
comment on column tidegate.request.queue is 'The queue of its current message; null when it has none.';
comment on column tidegate.request.msg_id is 'Number of its message; a message counts only if its request names it.';
comment on column tidegate.request.lease is 'Token of the claim that holds it; null: waiting, or out of the queue.';
comment on column tidegate.request.submitted_at is 'When it was submitted.';
comment on column tidegate.request.deadline_at is 'When it fails without a receipt; fixed at submit.';
comment on column tidegate.request.readiness_deadline_at is 'When it times out if still queued; fixed at submit.';
comment on column tidegate.request.queued_at is 'When it last entered queued.';
comment on column tidegate.request.processing_at is 'When it last entered processing.';
comment on column tidegate.request.tx_in_flight_at is 'When it last entered tx_in_flight.';
comment on column tidegate.request.receipt_received_at is 'When it entered receipt_received.';
comment on column tidegate.request.finished_at is 'When it ended.';
comment on column tidegate.request.worker is 'Last worker that claimed it; null before, and after a snoozed check.';
comment on column tidegate.request.submitter is 'The submitter, as given by the caller.';
comment on column tidegate.request.reference is 'The downstream''s name for it, from the receipt.';
comment on column tidegate.request.eta_seconds is 'Retry-After at submit, seconds.';
comment on column tidegate.request.eta_p90_ms is '90 percent ETA at submit, milliseconds; null: none.';
comment on column tidegate.request.payload is 'The submitted payload; never changed.';
comment on column tidegate.request.response is 'The downstream''s answer; of shares: {"shares": {part: response}}.';
comment on column tidegate.request.error is 'Error of a failure, timeout or retry: {"code", "message", "retryable"}.';
comment on column tidegate.request.callback_url is 'URL notified of its end; null: its kind''s callback_url, if any.';
comment on index tidegate.request_deadline_at_idx is 'Serves expire_by_deadline, about one visit per row.';
comment on index tidegate.request_readiness_deadline_at_idx is 'Serves expire_by_readiness.';
comment on index tidegate.request_kind_id_idx is 'Lists and retention of a kind; queries repeat its predicate.';

comment on table tidegate.stored_event is 'Append-only: transitions missing from request rows, partitioned by day.';
comment on column tidegate.stored_event.request_id is 'The request.';
comment on column tidegate.stored_event.transition_no is 'Which of its transitions this was, from 1.';
comment on column tidegate.stored_event.from_status is 'The status before; null: it was submitted.';
comment on column tidegate.stored_event.to_status is 'The status after.';
comment on column tidegate.stored_event.at is 'When.';
comment on column tidegate.stored_event.attempt is 'Checks (into or out of queued) or sends begun by then.';
comment on column tidegate.stored_event.cause is 'Why; hand_edit: the row was updated by hand.';
comment on column tidegate.stored_event.worker is 'The worker that claimed it last.';
comment on column tidegate.stored_event.detail is 'Error of failures, timeouts, retries; or {"session_user"}.';

comment on table tidegate.stored_event_default is 'Part of stored_event for days without a partition.';
comment on column tidegate.stored_event_default.request_id is 'The request.';
comment on column tidegate.stored_event_default.transition_no is 'Which of its transitions this was, from 1.';
comment on column tidegate.stored_event_default.from_status is 'The status before; null: it was submitted.';
comment on column tidegate.stored_event_default.to_status is 'The status after.';
comment on column tidegate.stored_event_default.at is 'When.';
comment on column tidegate.stored_event_default.attempt is 'Checks (into or out of queued) or sends begun by then.';
comment on column tidegate.stored_event_default.cause is 'Why; hand_edit: the row was updated by hand.';
comment on column tidegate.stored_event_default.worker is 'The worker that claimed it last.';
comment on column tidegate.stored_event_default.detail is 'As in stored_event.';

comment on table tidegate.request_count_delta is 'Append-only count changes per statement; folded by fold_counts.';
comment on column tidegate.request_count_delta.kind is 'The kind.';
comment on column tidegate.request_count_delta.req_status is 'The status.';
comment on column tidegate.request_count_delta.delta is 'How many requests entered it; negative: left it.';

comment on table tidegate.request_count is 'Folded counts by kind and status; read request_overview instead.';
comment on column tidegate.request_count.kind is 'The kind.';
comment on column tidegate.request_count.req_status is 'The status.';
comment on column tidegate.request_count.requests is 'How many.';
