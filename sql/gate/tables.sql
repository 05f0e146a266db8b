-- Comments on the tables and types of this folder's subject.

comment on type tidegate.admission is 'How many requests the gate of a queue and the quotas of a submission let in.';
comment on column tidegate.admission.room is 'How many more requests they let in; null: no limit.';
comment on column tidegate.admission.closed is 'Whether one of the quotas is closed.';
comment on column tidegate.admission.counted is 'The names of the gates that were counted.';
comment on column tidegate.admission.depths is 'The depth of each of these before the submission.';

comment on table tidegate.gate is 'One row per queue, and one per quota; submit refuses new work while one is closed.';
comment on column tidegate.gate.name is 'The queue; or ''kind '' and the kind, ''submitter '' and the submitter.';
comment on column tidegate.gate.queue is 'The queue whose depth the gate watches; null for a quota.';
comment on column tidegate.gate.kind is 'The kind whose requests in queues the gate watches.';
comment on column tidegate.gate.submitter is 'The submitter whose requests in queues the gate watches.';
comment on column tidegate.gate.state is 'accepting or too_many_requests.';
comment on column tidegate.gate.mode is 'strict: no submission exceeds high_water; soft: concurrent ones may.';
comment on column tidegate.gate.high_water is 'The depth, in messages, at which the gate closes.';
comment on column tidegate.gate.low_water is 'The depth, in messages, at which it opens again.';
comment on column tidegate.gate.depth is 'The depth, in messages, at the last change of state; not a live count.';
comment on column tidegate.gate.epoch is 'How many times the state has changed, or was taken or released by hand.';
comment on column tidegate.gate.forced is 'Whether an operator has forced the state.';
comment on column tidegate.gate.changed_at is 'When the state last changed.';

comment on table tidegate.quota_usage is 'The requests in queues that count at a quota of their kind or submitter.';
comment on column tidegate.quota_usage.gate is 'The name of the quota.';
comment on column tidegate.quota_usage.request_id is 'The request.';

comment on index tidegate.gate_queue_has_one is 'Serves the rule that a queue has one gate.';
comment on index tidegate.gate_kind_has_one is 'Serves the rule that a kind has one gate.';
comment on index tidegate.gate_submitter_has_one is 'Serves the rule that a submitter has one gate.';

comment on index tidegate.quota_usage_request_idx is 'Serves the removal of requests that leave the queues.';

comment on table tidegate.gate_round is 'One row: how far quota_reconcile has come through messages and quota usage.';
comment on column tidegate.gate_round.only_row is 'Always true: there is one row.';
comment on column tidegate.gate_round.queue is 'The queue whose messages are next.';
comment on column tidegate.gate_round.msg_id is 'The last message checked in it.';
comment on column tidegate.gate_round.gate is 'The quota whose usage is next.';
comment on column tidegate.gate_round.request_id is 'The last request checked in it.';
comment on column tidegate.gate_round.is_new is 'Whether a quota was made since this round began.';

comment on table tidegate.gate_event is 'Append-only: one row for each change of a gate''s state, or of its hold.';
comment on column tidegate.gate_event.id is 'Ascends in the order in which changes were made.';
comment on column tidegate.gate_event.gate is 'The name of the gate.';
comment on column tidegate.gate_event.epoch is 'Which change of this gate it was, from 1.';
comment on column tidegate.gate_event.state is 'The state it changed to.';
comment on column tidegate.gate_event.depth is 'The depth at the change, in messages.';
comment on column tidegate.gate_event.cause is 'Why it changed.';
comment on column tidegate.gate_event.actor is 'The database user in whose session it changed.';
comment on column tidegate.gate_event.at is 'When it changed.';
comment on column tidegate.gate_event.on_behalf_of is 'The actor that the calling program named; null: none.';
