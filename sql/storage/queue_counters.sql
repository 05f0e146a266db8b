-- queue_counters: The names of a queue's own counters (see `queue_counter`).
create or replace function tidegate_internal.queue_counters()
  returns text[] language sql immutable
return array[
  'pacing', 'watermark', 'epoch', 'due_watermark', 'lease_watermark', 'first_waiting', 'surveyed_at', 'survey_cursor',
  'not_waiting', 'offset', 'closed_draws', 'snapshot_number', 'snapshot_xid'
];
