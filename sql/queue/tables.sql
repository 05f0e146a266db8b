-- Comments on the tables and types of this folder's subject.

-- type stage: What a worker does: readiness (asks whether a request can run), tx (sends it).

-- table queue: One row per queue, with its limits; its storage and its gate come with it.
--   name: Name in lower snake case; the messages are in pgmq.q_NAME; never changes.
--   stage: The one stage this queue serves; never changes.
--   per_seconds: D, sends per second of the fleet; null: no limit, 0: none.
--   burst: How many sends may start at once after a pause; 1: evenly paced.
--   max_concurrency: C, checks at once in the fleet; null: no limit, 0: none.
--   paused: Whether claims are stopped; set by tidegate.pause.
--   created_at: When the queue was added.
--   kinds: The kinds that use it, and those that did: their requests stay; kept by triggers on kind.
--   paused_kinds: Those of them that are paused; kept by triggers on kind.
--   fair_by: Whose turns it serves: those of each submitter or kind; null: in order of arrival; never changes.

-- table queue_drain: Append-only: messages that settles have ended, kept for ten minutes.
--   queue: The queue.
--   at: When.
--   drained: How many messages at once.
--   held_ms: For how long they were held, all together; null: not recorded.

-- index queue_drain_at_idx: Serves queue_drain_rate: the drains of the last minutes.

-- table queue_minute: Queues by the minute, for a day; written by record_minutes, read by queue_history.
--   queue: The queue.
--   minute: The minute.
--   depth: Its messages when the minute was recorded.
--   drained: Messages that left it in the minute.

-- table queue_survey: The waiting messages of a deep queue, by chunks; written by survey_queue.
--   queue: The queue.
--   chunk: Its first message number divided by 16384.
--   waiting: How many of its messages waited when it was last counted.
--   waiting_by_block: The same for each block of 256 numbers of the chunk.

-- table kind_watermark: Watermarks by kind, for claims of some kinds; written by claims.
--   queue: The queue.
--   kind: The kind.
--   mark: No message of this kind waits below it, except one that comes due.
--   epoch: The counter epoch of its queue as it was then; void under another.
--   noted_at: When the row was made; an hour later rescan_queue removes it.
