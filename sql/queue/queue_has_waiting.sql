-- queue_has_waiting: whether a message at or after the queue's low-water mark may be taken now
create or replace function tidegate_internal.queue_has_waiting(p_queue text, p_now timestamptz default tidegate.clock())
  returns boolean
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_waiting boolean;
begin
  execute format(
    'select exists (select from (select 1 from %s where msg_id >= $1 and vt <= $2 order by msg_id limit 1) as first)',
    tidegate_internal.queue_table(p_queue)
  ) into v_waiting using coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(p_queue, 'mark')), 0), p_now;
  return v_waiting;
end;
$$;

comment on function tidegate_internal.queue_has_waiting is
  'Whether a message at or after the low-water mark may be taken now.';
