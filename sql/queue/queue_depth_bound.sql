-- queue_depth_bound: at most so many messages are in a queue: the numbers drawn, less those known to be dead
create or replace function tidegate_internal.queue_depth_bound(p_queue text)
  returns bigint
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  return (select k.last - k.dead from tidegate_internal.queue_numbers(p_queue) as k);
end;
$$;

comment on function tidegate_internal.queue_depth_bound is 'At most so many messages are in a queue.';
