-- Comments on the tables and types of this folder's subject.

comment on type tidegate.stage is 'What a worker does: readiness (asks whether a request can run), tx (sends it).';

comment on table tidegate.queue is 'One row per queue, with its limits; its storage and its gate come with it.';
comment on column tidegate.queue.name is 'Name in lower snake case; the messages are in pgmq.q_NAME; never changes.';
comment on column tidegate.queue.stage is 'The one stage this queue serves; never changes.';
comment on column tidegate.queue.per_seconds is 'D, sends per second of the fleet; null: no limit, 0: none.';
comment on column tidegate.queue.burst is 'How many sends may start at once after a pause; 1: evenly paced.';
comment on column tidegate.queue.max_concurrency is 'C, checks at once in the fleet; null: no limit, 0: none.';
comment on column tidegate.queue.paused is 'Whether claims are stopped; set by tidegate.pause.';
comment on column tidegate.queue.created_at is 'When the queue was added.';

comment on table tidegate.queue_drain is 'Append-only: messages that settles have ended, kept for ten minutes.';
comment on column tidegate.queue_drain.queue is 'The queue.';
comment on column tidegate.queue_drain.at is 'When.';
comment on column tidegate.queue_drain.drained is 'How many messages at once.';
comment on index tidegate.queue_drain_at_idx is 'Serves queue_drain_rate: the drains of the last minutes.';

comment on table tidegate.queue_survey is
  'The waiting messages of a deep queue, by stretches; written by survey_queue.';
comment on column tidegate.queue_survey.queue is 'The queue.';
comment on column tidegate.queue_survey.stretch is 'Its first message number divided by 16384.';
comment on column tidegate.queue_survey.waiting is 'How many of its messages waited when it was last counted.';
comment on column tidegate.queue_survey.waiting_by_block is 'The same for each block of 256 numbers of the stretch.';

comment on table tidegate.kind_watermark is 'Watermarks by kind, for claims of some kinds; written by claims.';
comment on column tidegate.kind_watermark.queue is 'The queue.';
comment on column tidegate.kind_watermark.kind is 'The kind.';
comment on column tidegate.kind_watermark.mark is 'No message of this kind waits below it, except one that comes due.';
comment on column tidegate.kind_watermark.epoch is 'The counter epoch of its queue as it was then; void under another.';
comment on column tidegate.kind_watermark.noted_at is 'When the row was made; an hour later rescan_queue removes it.';

comment on column tidegate.queue_drain.held_ms is 'For how long they were held, all together; null: not noted.';
