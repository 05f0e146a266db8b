-- queue_counters: The names of a queue's own counters (see `queue_counter`); the last five are those of fair queues.
create or replace function tidegate_internal.queue_counters(p_is_fair boolean)
  returns text[] language sql immutable
return array[
  'pacing', 'watermark', 'epoch', 'due_watermark', 'lease_watermark', 'first_waiting', 'surveyed_at', 'survey_cursor',
  'not_waiting', 'offset', 'closed_draws', 'snapshot_number', 'snapshot_xid'
] || case when p_is_fair then array['ready_tag', 'ready_no', 'last_turn', 'forgotten', 'folded'] end;
