-- Comments on the tables and types of this folder's subject.

-- type admission: How many requests the gate of a queue and the quotas of a submission admit.
--   room: How many more requests they admit; null: no limit.
--   closed: Whether one of the quotas is closed.
--   counted: The names of the gates that were counted.
--   depths: The depth of each of these before the submission.

-- table gate: One row per queue, and one per quota; submit refuses new work while one is closed.
--   name: The queue; or 'kind ' and the kind, 'submitter ' and the submitter.
--   queue: The queue whose depth the gate watches; null for a quota.
--   kind: The kind whose requests in queues the gate watches.
--   submitter: The submitter whose requests in queues the gate watches.
--   state: accepting or too_many_requests.
--   mode: strict: no submission exceeds high_water; soft: concurrent ones may.
--   high_water: The depth, in messages, at which the gate closes.
--   low_water: The depth, in messages, at which it opens again.
--   depth: The depth, in messages, at the last change of state; not a live count.
--   epoch: How many times the state has changed, or was taken or released by hand.
--   forced: Whether an operator has forced the state.
--   changed_at: When the state last changed.

-- table quota_usage: The requests in queues that count at a quota of their kind or submitter.
--   gate: The name of the quota.
--   request_id: The request.

-- index gate_queue_has_one: Serves the rule that a queue has one gate.

-- index gate_kind_has_one: Serves the rule that a kind has one gate.

-- index gate_submitter_has_one: Serves the rule that a submitter has one gate.

-- index quota_usage_request_idx: Serves the removal of requests that leave the queues.

-- table gate_round: One row: how far quota_reconcile has come through messages and quota usage.
--   only_row: Always true: there is one row.
--   queue: The queue whose messages are next.
--   msg_id: The last message checked in it.
--   gate: The quota whose usage is next.
--   request_id: The last request checked in it.
--   is_new: Whether a quota was made since this round began.

-- table gate_event: Append-only: one row for each change of a gate's state, or of its hold.
--   id: Ascends in the order in which changes were made.
--   gate: The name of the gate.
--   epoch: Which change of this gate it was, from 1.
--   state: The state it changed to.
--   depth: The depth at the change, in messages.
--   cause: Why it changed.
--   actor: The database user in whose session it changed.
--   at: When it changed.
--   on_behalf_of: The actor that the calling program named; null: none.
