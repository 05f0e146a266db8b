-- What operators do about lost and failed requests.

comment on table tidegate.recovery is
  'What tidegate recover has done, one row a run; a batch by hand that found something is a run of its own.';
comment on column tidegate.recovery.id is 'The run.';
comment on column tidegate.recovery.began_at is 'When it began.';
comment on column tidegate.recovery.last_at is 'When one of its batches last did something.';
comment on column tidegate.recovery.ended_at is 'When it came to its end; null: it is under way, or died.';
comment on column tidegate.recovery.actor is 'The database user.';
comment on column tidegate.recovery.on_behalf_of is 'Who asked, as the program says.';
comment on column tidegate.recovery.options is 'What it was asked for.';
comment on column tidegate.recovery.figures is
  'What it did, in requests: reset, ended, rebuilt, renumbered, counted (at caps), expired, dated; and responses, counts, '
  'gates, storages, strays_removed.';

comment on function tidegate.make_storage is 'Internal: makes a queue''s pgmq table and counters, as far as they are missing.';
comment on function tidegate.missing_storage is 'Internal: queues that lack their pgmq table or a counter.';
comment on function tidegate.note_recovery is 'Internal: adds figures to the record of a run of recover.';
comment on function tidegate.recovery_begins is 'Opens the record of a run of recover; returns its number.';
comment on function tidegate.recovery_ends is 'Closes the record of a run of recover; returns what it did.';
comment on function tidegate.recover_storage is
  'Makes the pgmq tables and counters of queues that lack them, sets sequences that were set back; names these queues.';
comment on function tidegate.deadline_fate is
  'Internal: which deadline of a live request has passed, or that it has none.';
comment on function tidegate.deadline_fates is
  'Internal: of live requests, those that a deadline has overtaken, and those that have none.';
comment on function tidegate.recover_deadlines is
  'One batch: ends live requests past their deadline that no sweep will meet, and gives one to those that have none; go on '
  'at next_after.';
comment on function tidegate.recover_responses is
  'One batch: applies early responses whose request awaits one by now; call again while there is more.';
comment on function tidegate.wrong_counts is 'Internal: counts by kind and status that differ from the requests there are.';
comment on function tidegate.recover_counts is
  'Puts right the counts by kind and status that differ from the requests there are; returns them.';
comment on function tidegate.recover_gates is 'Closes and opens gates whose marks have been passed unseen; returns how many.';

comment on function tidegate.explain is
  'Why a request is where it is: the decisive reason first, each as a code, a sentence and the figures in it.';
comment on function tidegate.explain_sent is 'Internal: explain for a request that awaits its response or has ended.';
comment on function tidegate.explain_waiting is 'Internal: explain for a request that is in a queue, or should be.';
comment on function tidegate.plain_time is 'Internal: a time as sentences tell it.';
comment on function tidegate.plain_span is 'Internal: a length of time as sentences tell it.';

comment on function tidegate.invariants is
  'Everything that must hold at any moment: a name, what it says, and the query that shows what breaks it.';
comment on function tidegate.invariants_of_queues is
  'Internal: what must hold between requests and messages, and of what queues and gates stand on.';
comment on function tidegate.invariants_of_history is
  'Internal: what must hold between requests and their history.';
comment on function tidegate.invariants_of_requests is
  'Internal: what must hold of requests and of what belongs to them.';
comment on function tidegate.invariants_of_configuration is
  'Internal: what must hold of kinds, policies and breakers.';
comment on function tidegate.invariants_of_schema is
  'Internal: what must hold of the rules, triggers, indexes and duties that everything else stands on.';
comment on function tidegate.check_invariants is
  'Every invariant that does not hold, in one snapshot, or those named, of a range of requests; none when all is well.';
comment on function tidegate.invariant_slice is
  'The slice of the requests of a span that ends before a request (null: the newest): where it begins, and how many it has.';
comment on view tidegate.invariant is 'Everything that must hold, and the query that shows what breaks it.';
comment on column tidegate.invariant.place is 'Its place in the list.';
comment on column tidegate.invariant.name is 'Its name: what is there when it is broken.';
comment on column tidegate.invariant.says is 'What it says, in words.';
comment on column tidegate.invariant.query is 'A query that answers with a row for each violation.';
comment on column tidegate.invariant.by_request is 'Whether it can be asked of a range of requests; these read all of them.';
comment on view tidegate.invariant_violation is 'What must hold and does not; empty when all is well.';
comment on column tidegate.invariant_violation.name is 'The name of the invariant: what is there and should not be.';
comment on column tidegate.invariant_violation.says is 'What the invariant says, in words.';
comment on column tidegate.invariant_violation.violations is 'How often it is broken.';
comment on column tidegate.invariant_violation.samples is 'The first ten of those: requests, messages (queue and number), names.';
comment on column tidegate.invariant_violation.query is 'The query that shows them all.';
comment on column tidegate.invariant_violation.place is 'Its place in the list of invariants.';

comment on table tidegate.retention_walk is 'How far the round of expire_requests has come, kind by kind.';
comment on column tidegate.retention_walk.kind is 'The kind.';
comment on column tidegate.retention_walk.after is 'Every request of the kind up to this id was looked at in this round.';
comment on column tidegate.setting.event_retention is
  'For how long changes of gates, breakers and policies are told; the latest of each stays. Null: for good.';
comment on function tidegate.expire_requests is
  'Maintenance duty: deletes requests that ended longer ago than their kind''s retention, the oldest first.';
comment on function tidegate.drop_partitions is
  'Maintenance duty: drops the oldest history partition whose requests are gone; returns its name.';
comment on function tidegate.expire_events is
  'Maintenance duty: forgets changes of gates, breakers and policies older than setting.event_retention; the latest of each '
  'stays.';

comment on table tidegate.redrive is 'Requests that have failed or timed out and were submitted again, and as what.';
comment on column tidegate.redrive.request_id is 'The old request; submitted again once at most.';
comment on column tidegate.redrive.redriven_as is
  'The new request; of a kind that makes keys, an earlier one that stood for the same payload.';
comment on column tidegate.redrive.at is 'When.';
comment on column tidegate.redrive.actor is 'The database user.';
comment on column tidegate.redrive.on_behalf_of is 'Who asked, as the program says.';
comment on index tidegate.redrive_redriven_as_idx is 'Serves the way from a new request to the old one.';
comment on function tidegate.redrive is
  'One batch: submits failed and timed-out requests again as new ones, each once, as far as the gates have room; those that '
  'nobody could submit are unfit; go on at next_after.';
comment on function tidegate.stands_for is
  'Internal: the request that answers for one that a key was accepted with; null: none does.';
comment on view tidegate.redrive_overview is 'Requests that were submitted again, and what became of them, latest first.';
comment on column tidegate.redrive_overview.at is 'When it was submitted again.';
comment on column tidegate.redrive_overview.request_id is 'The old request.';
comment on column tidegate.redrive_overview.kind is 'Its kind; null: it is gone.';
comment on column tidegate.redrive_overview.req_status is 'How it ended.';
comment on column tidegate.redrive_overview.code is 'The code of its error.';
comment on column tidegate.redrive_overview.redriven_as is 'The new request.';
comment on column tidegate.redrive_overview.redriven_status is 'Where the new request is in its life; null: it is gone.';
comment on column tidegate.redrive_overview.actor is 'Who did it.';
