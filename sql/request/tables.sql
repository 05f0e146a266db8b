-- What the tables of this folder's subject are for, column by column.

comment on schema tidegate is
  'Tidegate, a request relay: requests, their queues, limits, policies and history; written through its functions.';

comment on schema tidegate_internal is
  'What only the functions and triggers of schema tidegate call; no role may use it.';

comment on type tidegate.request_status is
  'Where a request is: queued (waits for or is under its readiness check), processing (may run; waits in its tx '
  'queue), tx_in_flight (a worker holds it for sending), receipt_received (the downstream took it; its response is '
  'awaited), completed (terminal: answered), timed_out (terminal: not ready or not answered in time), failure '
  '(terminal: refused, rejected, cancelled or given up).';

comment on type tidegate.flow is
  'Which statuses a kind passes through: decrypt (readiness check, send, response or shares), proof (send, '
  'verdict), direct (send, response; the receipt may be the response).';

comment on table tidegate.transition_rule is
  'The state machine as rows: what is not here is impossible; written by migrate.';
comment on column tidegate.transition_rule.flow is 'The flow the rule belongs to.';
comment on column tidegate.transition_rule.from_status is 'The status before; null: the request is new.';
comment on column tidegate.transition_rule.to_status is 'The status after.';
comment on column tidegate.transition_rule.cause is 'Why a request may take this step; several causes may share one.';
comment on index tidegate.transition_rule_is_listed_once is
  'Serves the guard, which looks for (flow, from, to); no rule twice.';
comment on index tidegate.transition_rule_entry_is_listed_once is 'No entry rule twice.';

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
comment on column tidegate.request.lease is
  'The token of the claim under which a worker holds it; null: it waits, or has left the queue.';
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
  'In how many milliseconds its caller was told to find the answer with a probability of 90 percent; null: was not '
  'told.';
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
comment on index tidegate.request_kind_id_idx is
  'Serves lists and retention of one kind; only queries that repeat its predicate use it.';

comment on table tidegate.stored_event is
  'Append-only: the transitions that a request''s row does not tell, partitioned by day of the request; written by '
  'triggers on request; read request_event.';
comment on column tidegate.stored_event.request_id is 'The request.';
comment on column tidegate.stored_event.transition_no is 'Which of its transitions this was, from 1.';
comment on column tidegate.stored_event.from_status is 'The status before; null: it was submitted.';
comment on column tidegate.stored_event.to_status is 'The status after.';
comment on column tidegate.stored_event.at is 'When.';
comment on column tidegate.stored_event.attempt is 'Checks (into or out of queued) or sends begun by then.';
comment on column tidegate.stored_event.cause is 'Why; hand_edit: somebody updated the row.';
comment on column tidegate.stored_event.worker is 'The worker that claimed it last.';
comment on column tidegate.stored_event.detail is
  'The error of a failure, timeout or retry; of a hand edit: {"session_user"}.';

comment on table tidegate.stored_event_default is
  'The part of stored_event for requests that no partition by day was made for.';
comment on column tidegate.stored_event_default.request_id is 'The request.';
comment on column tidegate.stored_event_default.transition_no is 'Which of its transitions this was, from 1.';
comment on column tidegate.stored_event_default.from_status is 'The status before; null: it was submitted.';
comment on column tidegate.stored_event_default.to_status is 'The status after.';
comment on column tidegate.stored_event_default.at is 'When.';
comment on column tidegate.stored_event_default.attempt is 'Checks (into or out of queued) or sends begun by then.';
comment on column tidegate.stored_event_default.cause is 'Why; hand_edit: somebody updated the row.';
comment on column tidegate.stored_event_default.worker is 'The worker that claimed it last.';
comment on column tidegate.stored_event_default.detail is
  'The error of a failure, timeout or retry; of a hand edit: {"session_user"}.';

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
