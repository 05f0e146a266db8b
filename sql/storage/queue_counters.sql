-- queue_counters: The names of a queue's own counters (see `queue_counter`).
create or replace function tidegate_internal.queue_counters()
  returns text[] language sql immutable
return array[
  'pacing', 'watermark', 'head', 'due', 'survey', 'hand', 'surveyed', 'offset', 'ended', 'noted', 'noted_xact',
  'epoch', 'reaped'
];
