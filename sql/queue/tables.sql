-- What the tables of this folder's subject are for, column by column.

comment on type tidegate.stage is
  'What workers do: readiness (ask whether a request can run; limited by concurrency), tx (send it downstream; '
  'limited by rate).';

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

comment on table tidegate.queue_drain is
  'Append-only: messages that left a queue because their stage ended them; written by the settles, kept for ten '
  'minutes.';
comment on column tidegate.queue_drain.queue is 'The queue.';
comment on column tidegate.queue_drain.at is 'When.';
comment on column tidegate.queue_drain.drained is 'How many messages at once.';
comment on index tidegate.queue_drain_at_idx is 'Serves queue_drain_rate: the drains of the last minutes.';

comment on table tidegate.queue_survey is
  'How many messages wait in each stretch of a deep queue: 16384 consecutive message numbers; written by survey_queue, '
  'up to some seconds old.';
comment on column tidegate.queue_survey.queue is 'The queue.';
comment on column tidegate.queue_survey.stretch is 'The stretch: its first message number, divided by 16384.';
comment on column tidegate.queue_survey.waiting is 'How many of its messages waited when it was last counted.';
comment on column tidegate.queue_survey.waiting_by_block is
  'The same for each 256 numbers of it; fewer than 64 when the queue ends in it.';

comment on table tidegate.kind_watermark is
  'Where claims for some of a queue''s kinds begin, far beyond messages of other kinds; written by claims.';
comment on column tidegate.kind_watermark.queue is 'The queue.';
comment on column tidegate.kind_watermark.kind is 'The kind.';
comment on column tidegate.kind_watermark.mark is
  'No message of this kind waits below this number, but for what comes due.';
comment on column tidegate.kind_watermark.epoch is 'The counter epoch of its queue as it was then; void under another.';
comment on column tidegate.kind_watermark.noted_at is 'When the row was made; an hour later rescan_queue removes it.';

comment on column tidegate.queue_drain.held_ms is 'For how long they were held, all together; null: not noted.';
