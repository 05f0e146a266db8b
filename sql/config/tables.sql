-- Comments on the tables of this folder's subject.

comment on column tidegate.setting.event_retention is 'How long gate, breaker, policy events are kept; null: forever.';

comment on table tidegate.config_change is 'Append-only history of the configuration, one row per changed column.';
comment on column tidegate.config_change.id is 'Ascends in the order in which changes were made.';
comment on column tidegate.config_change.at is 'When.';
comment on column tidegate.config_change.actor is 'The database user in whose session it changed.';
comment on column tidegate.config_change.on_behalf_of is 'Requester, as the program reports (tidegate.actor); or null.';
comment on column tidegate.config_change.operation is 'insert, update or delete of the row.';
comment on column tidegate.config_change.table_name is 'The table.';
comment on column tidegate.config_change.row_key is 'Primary key values, joined by dots; empty for one-row tables.';
comment on column tidegate.config_change.column_name is 'The column.';
comment on column tidegate.config_change.old_value is 'The value before, as text; null: none, or the row is new.';
comment on column tidegate.config_change.new_value is 'The value after, as text; null: none, or the row was deleted.';

comment on table tidegate.kind is 'One row per kind: flow, queues, nominal times, deadlines; written by operators.';
comment on column tidegate.kind.name is 'Name in lower snake case; never changes.';
comment on column tidegate.kind.flow is 'Which statuses its requests pass through; copied onto each request at submit.';
comment on column tidegate.kind.readiness_queue is 'The queue for readiness checks; decrypt flows only.';
comment on column tidegate.kind.tx_queue is 'The queue in which requests wait to be sent.';
comment on column tidegate.kind.response_threshold is 'Shares that complete a request; above 1 for decrypt flows only.';
comment on column tidegate.kind.readiness_ms is 'R, nominal time of a check, milliseconds; decrypt flows require it.';
comment on column tidegate.kind.processing_ms is 'P, nominal time from send to response, milliseconds; required.';
comment on column tidegate.kind.tx_confirmation_ms is 'T, nominal time of a send, milliseconds; required.';
comment on column tidegate.kind.eta is 'Source of ETAs: nominal (configured times) or observed (measured times).';
comment on column tidegate.kind.readiness_timeout is 'Longest time in queued before timed_out; applied at submit.';
comment on column tidegate.kind.deadline is 'Longest time to the receipt before failure; applied at submit.';
comment on column tidegate.kind.response_timeout is 'Longest wait from the receipt to the response before timed_out.';
comment on column tidegate.kind.retention is 'How long ended requests are kept, at least dedup_window; null: forever.';
comment on column tidegate.kind.callback_url is 'URL to notify of ends, unless a request has its own; null: none.';
comment on column tidegate.kind.key_mode is 'Missing key: caller (none), natural (key_paths) or proxy (payload).';
comment on column tidegate.kind.key_paths is 'Natural keys: payload members that make the key, such as order.id.';
comment on column tidegate.kind.key_bucket is 'Proxy keys: time bucket in the key, edges do not count; or null.';
comment on column tidegate.kind.set_paths is 'Payload arrays that are sets: element order does not matter.';
comment on column tidegate.kind.created_at is 'When the kind was added.';

comment on table tidegate.setting is 'One row of settings for all kinds; written by operators and initialise.';
comment on column tidegate.setting.only_row is 'Always true: there is one row.';
comment on column tidegate.setting.min_seconds is 'The smallest Retry-After before the receipt, seconds.';
comment on column tidegate.setting.max_seconds is 'The largest Retry-After before the receipt, seconds.';
comment on column tidegate.setting.jitter is 'Largest random share added to refusals and observed ETAs; 0: none.';
comment on column tidegate.setting.safety_margin is 'M, the share added to every estimate, 0 to 1; required.';
comment on column tidegate.setting.heal_window is 'Window of the rates by which policies adjust.';
comment on column tidegate.setting.heal_pause is 'The least time between two such adjustments of one policy.';
comment on column tidegate.setting.initialised_at is 'When tidegate.initialise first ran; null: never.';
