-- reaped_until: before which instant no claim of a queue looks for leases that ran out (see `raise_marks`)
create or replace function tidegate_internal.reaped_until(p_queue text)
  returns timestamptz
  language sql
  stable
return to_timestamp(coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'reaped')), 0) / 1000000.0);

comment on function tidegate_internal.reaped_until is 'Before which instant no claim of a queue looks for leases that ran out.';
