-- What the tables of this folder's subject are for, column by column.

comment on column tidegate.setting.event_retention is
  'For how long changes of gates, breakers and policies are told; the latest of each stays. Null: for good.';

comment on table tidegate.config_change is
  'Append-only: who changed the configuration, one row per column that changed, however it was changed; written by '
  'triggers.';
comment on column tidegate.config_change.id is 'Ascends in the order in which changes were made.';
comment on column tidegate.config_change.at is 'When.';
comment on column tidegate.config_change.actor is 'The database user in whose session it changed.';
comment on column tidegate.config_change.on_behalf_of is
  'For whom, as the program that made the change says (tidegate.actor): an API key''s name, an operating system user; '
  'null: it does not.';
comment on column tidegate.config_change.operation is 'What was done to the row: insert, update or delete.';
comment on column tidegate.config_change.table_name is 'The table.';
comment on column tidegate.config_change.row_key is
  'The row: the values of its primary key, joined by dots; empty in a table with one row.';
comment on column tidegate.config_change.column_name is 'The column.';
comment on column tidegate.config_change.old_value is 'What it held, as text; null: nothing, or the row is new.';
comment on column tidegate.config_change.new_value is 'What it holds, as text; null: nothing, or the row is gone.';

comment on table tidegate.kind is
  'One row per kind of request: its flow, queues, nominal times and deadlines; written by operators.';
comment on column tidegate.kind.name is 'Name in lower snake case; never changes.';
comment on column tidegate.kind.flow is
  'Which statuses its requests pass through; copied onto each request at submit.';
comment on column tidegate.kind.readiness_queue is
  'The queue in which new requests wait for their check; decrypt flows only.';
comment on column tidegate.kind.tx_queue is 'The queue in which requests wait to be sent.';
comment on column tidegate.kind.response_threshold is
  'How many shares complete a request; 1: a single response; above 1 for decrypt flows only; copied at submit.';
comment on column tidegate.kind.readiness_ms is
  'R, the nominal time of a readiness check, milliseconds; required for decrypt flows before submitting.';
comment on column tidegate.kind.processing_ms is
  'P, the nominal time from send to response, milliseconds; required before submitting.';
comment on column tidegate.kind.tx_confirmation_ms is
  'T, the nominal time of a send, milliseconds; required before submitting.';
comment on column tidegate.kind.eta is
  'nominal: ETAs come from the configured times; observed is reserved and not acted on yet.';
comment on column tidegate.kind.readiness_timeout is
  'How long a new request may stay queued before it ends as timed_out; fixed on the request at submit.';
comment on column tidegate.kind.deadline is
  'How long a new request may take until its receipt before it ends in failure; fixed on the request at submit.';
comment on column tidegate.kind.response_timeout is
  'How long a response is awaited after the receipt before the request ends as timed_out.';
comment on column tidegate.kind.retention is
  'For how long requests are kept that have ended, the dedup window of stage tx at least; null: for good.';
comment on column tidegate.kind.callback_url is
  'Who is told when a request of this kind ends, unless the request names a URL of its own; null: nobody.';
comment on column tidegate.kind.key_mode is
  'What makes the idempotency key of a request that comes without one: caller: nothing does; natural: the values at '
  'key_paths; '
  'proxy: the whole payload and the submitter.';
comment on column tidegate.kind.key_paths is
  'Natural keys: which members of the payload make the key, each a path of names joined by dots, such as order.id.';
comment on column tidegate.kind.key_bucket is
  'Proxy keys: the time bucket that is part of the key; duplicates on both sides of its edge are found all the same; '
  'null: none.';
comment on column tidegate.kind.set_paths is
  'Which arrays of the payload are sets, each a path of names joined by dots: the order of their elements makes no '
  'difference.';
comment on column tidegate.kind.created_at is 'When the kind was added.';

comment on table tidegate.setting is
  'One row: what holds for every kind; written by operators and tidegate.initialise.';
comment on column tidegate.setting.only_row is 'Always true: there is one row.';
comment on column tidegate.setting.min_seconds is
  'The smallest Retry-After of a request on its way to its receipt, seconds.';
comment on column tidegate.setting.max_seconds is
  'The largest Retry-After of a request on its way to its receipt, seconds; also the answer while a queue is '
  'stopped.';
comment on column tidegate.setting.jitter is
  'By what share at most refusals and observed ETAs are told later, at random, so that callers spread out; 0: not at '
  'all.';
comment on column tidegate.setting.safety_margin is
  'M, the share added to every estimate, 0 to 1; required before submitting.';
comment on column tidegate.setting.heal_window is
  'Over what time the rates are taken by which policies adjust themselves.';
comment on column tidegate.setting.heal_pause is 'The least time between two such adjustments of one policy.';
comment on column tidegate.setting.initialised_at is 'When tidegate.initialise first ran; null: never.';
