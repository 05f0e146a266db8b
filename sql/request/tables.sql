-- Comments on the tables of this folder's subject.

-- schema tidegate: Tidegate, a request relay: tables, views and the functions that write them.

-- schema tidegate_internal: Functions for those of schema tidegate only; no role may use it.

-- type request_status: Where a request is: queued (waits for or is under its readiness check), processing (may run;
-- waits in its tx queue), tx_in_flight (a worker holds it for sending), receipt_received (the downstream took it; its
-- response is awaited), completed (terminal: answered), timed_out (terminal: not ready or not answered in time),
-- failure (terminal: refused, rejected, cancelled or given up).

-- type flow: Which statuses a kind passes through: decrypt (readiness check, send, response or shares), proof (send,
-- verdict), direct (send, response; the receipt may be the response).

-- table transition_rule: The state machine: every legal transition; written by migrate.
--   flow: The flow the rule belongs to.
--   from_status: The status before; null: the request is new.
--   to_status: The status after.
--   cause: Why a request may take this step; several causes may share one.

-- index transition_rule_is_listed_once: Serves request_history (flow, from, to); no rule twice.

-- index transition_rule_entry_is_listed_once: No entry rule twice.

-- table request: One row per request, authoritative; written by functions, guarded by triggers.
--   id: The caller's job_id: a UUID version 7 made here, so ids ascend with time.
--   kind: Its kind; never changes.
--   flow: Its kind's flow at submit; never changes.
--   req_status: Its current status.
--   previous_status: Status before the last update, for the history trigger.
--   transition_no: How many transitions it has made, its entry included.
--   cause: Why it made the last one; hand_edit: the row was updated by hand.
--   readiness_attempt: Readiness checks begun; a released one is not counted.
--   tx_attempt: Sends begun; one released unsent is not counted.
--   readiness_waits: Checks that were snoozed; the policy does not count them.
--   checks_failing_since: Start of the current run of failed checks; or null.
--   tx_unsent: Sends that certainly had no effect: did not leave, or were refused.
--   response_threshold: How many shares complete it: its kind's at submit, or set at its check.
--   queue: The queue of its current message; null when it has none.
--   msg_id: Number of its message; a message counts only if its request names it.
--   lease: Token of the claim that holds it; null: waiting, or out of the queue.
--   cancel_requested_at: When its cancel was requested during a send; no other follows.
--   ended_lease: Token of the lease under which another than its holder ended it, until the holder's settle comes.
--   send_id: The id it is sent under, as a repeat of what may have been executed under that; null: its own.
--   submitted_at: When it was submitted.
--   deadline_at: When it fails without a receipt; fixed at submit.
--   readiness_deadline_at: When it times out if still queued; fixed at submit.
--   queued_at: When it last entered queued.
--   processing_at: When it last entered processing.
--   tx_in_flight_at: When it last entered tx_in_flight.
--   receipt_received_at: When it entered receipt_received.
--   finished_at: When it ended.
--   worker: Last worker that claimed it; null before, and after a snoozed check.
--   submitter: The submitter, as given by the caller.
--   reference: The downstream's name for it, from the receipt.
--   eta_seconds: Retry-After at submit, seconds.
--   eta_p50_ms: 50 percent ETA at submit, milliseconds; null: none.
--   eta_p90_ms: 90 percent ETA at submit, milliseconds; null: none.
--   payload: The submitted payload; never changed.
--   response: The downstream's answer; of shares: {"shares": {part: response}}.
--   error: Error of its end, or of its last attempt: {"code", "message", "retryable"}; perhaps details, last_error.
--   callback_url: URL notified of its end; null: its kind's callback_url, if any.
--   traceparent: Its place in its caller's trace (W3C Trace Context); null: none. That of a redriven request is that of
--     the first one.

-- index request_send_id_idx: Finds the repeat of a request, which its response answers.

-- table outcome: What is known of requests that failed or timed out after a send that may have been executed.
--   request_id: The request.
--   kind: Its kind.
--   executed: Whether the downstream has executed it: no, yes or unknown.
--   source: Where that comes from: settle, response, search, receipt_taken_back, downstream,
--     operator, attempts.
--   at: Since when that is known.
--   note: The reason that an operator or the downstream gave; or null.
--   actor: Who said so.
--   contradicted_by: What says otherwise: executed, source, at, note, actor; null: nothing.
--   searches: How often workers have searched for its receipt.
--   search_at: When they search next, if it is unknown then; null: not any more.

-- index outcome_unresolved_idx: Lists what is unknown.

-- index outcome_contradicted_idx: Counts what two sources differ about.

-- index outcome_search_at_idx: Serves search_claim: the longest due of each kind first.

-- index request_deadline_at_idx: Serves expire_by_deadline, about one visit per row.

-- index request_readiness_deadline_at_idx: Serves expire_by_readiness.

-- index request_kind_id_idx: Lists and retention of a kind; queries repeat its predicate.

-- table stored_event: Append-only: transitions missing from request rows, partitioned by day.
--   request_id: The request.
--   transition_no: Which of its transitions this was, from 1.
--   from_status: The status before; null: it was submitted.
--   to_status: The status after.
--   at: When.
--   attempt: Checks (into or out of queued) or sends begun by then.
--   cause: Why; hand_edit: the row was updated by hand.
--   worker: The worker that claimed it last.
--   detail: Error of failures, timeouts, retries; of operators: session_user, on_behalf_of.

-- table stored_event_default: Part of stored_event for days without a partition.
--   request_id: The request.
--   transition_no: Which of its transitions this was, from 1.
--   from_status: The status before; null: it was submitted.
--   to_status: The status after.
--   at: When.
--   attempt: Checks (into or out of queued) or sends begun by then.
--   cause: Why; hand_edit: the row was updated by hand.
--   worker: The worker that claimed it last.
--   detail: As in stored_event.

-- table request_count_delta: Append-only count changes per statement; folded by fold_counts.
--   kind: The kind.
--   req_status: The status.
--   delta: How many requests entered it; negative: left it.
--   submitted: How many of these were submitted.
--   from_status: The status that as many left; null: none.

-- table transition_minute: Transitions by minute, for a day; read transition_rate and kind_history instead.
--   kind: The kind.
--   req_status: The status that they led to.
--   minute: The minute in which fold_counts counted them.
--   transitions: How many.

-- table request_count: Folded counts by kind and status; read request_overview instead.
--   kind: The kind.
--   req_status: The status.
--   requests: How many.
