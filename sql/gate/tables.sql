-- What the tables of this folder's subject are for, column by column.

comment on type tidegate.admission is
  'What a submission finds at the gate of its queue and at the caps of its kind and submitter.';
comment on column tidegate.admission.room is
  'How many more requests they let in; null: none limits.';
comment on column tidegate.admission.closed is 'Whether one of the caps is closed.';
comment on column tidegate.admission.counted is 'The names of those that were counted.';
comment on column tidegate.admission.depths is 'How deep it was behind these, before the submission.';

comment on table tidegate.gate is
  'One row per queue, which comes with the queue, and one per cap of a kind or submitter, which quota_set makes: marks '
  'and '
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

comment on table tidegate.quota_usage is
  'The requests in queues of kinds and submitters that have a gate: what these gates count.';
comment on column tidegate.quota_usage.gate is 'The gate.';
comment on column tidegate.quota_usage.request_id is 'The request.';

comment on index tidegate.gate_queue_has_one is 'Serves the rule that a queue has one gate.';
comment on index tidegate.gate_kind_has_one is 'Serves the rule that a kind has one gate.';
comment on index tidegate.gate_submitter_has_one is 'Serves the rule that a submitter has one gate.';

comment on index tidegate.quota_usage_request_idx is 'Serves requests that leave the queues.';

comment on table tidegate.gate_round is 'One row: how far quota_reconcile has come round all messages and all members.';
comment on column tidegate.gate_round.only_row is 'Always true: there is one row.';
comment on column tidegate.gate_round.queue is 'The queue whose messages it looks at.';
comment on column tidegate.gate_round.msg_id is 'The message that it has come to there.';
comment on column tidegate.gate_round.gate is 'The gate whose members it looks at.';
comment on column tidegate.gate_round.request_id is 'The member that it has come to there.';
comment on column tidegate.gate_round.is_new is 'Whether a cap was made since it began this round: then it hurries.';

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
  'For whom, as the program that made the change says: an API key''s name, an operating system user; null: it does '
  'not.';
