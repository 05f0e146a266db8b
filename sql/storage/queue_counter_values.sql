-- queue_counter_values: The counters of every queue that has storage, and `last`, the last number that it has drawn;
-- the view counter_overview says what they are.
create or replace function tidegate.queue_counter_values()
  returns table (queue text, counter text, value bigint)
  language plpgsql volatile security definer as $$
begin
  return query
    select q.name, c.counter, coalesce(pg_sequence_last_value(tidegate_internal.queue_counter(q.name, c.counter)), 0)
    from tidegate_internal.stored_queues() as q
    cross join unnest(tidegate_internal.queue_counters(q.fair_by is not null)) as c(counter);
  counter := 'last';
  for queue in select q.name from tidegate_internal.stored_queues() as q loop
    -- Read as a row: `pg_sequence_last_value` takes the lock that shows open draws (see `refresh_offset`).
    execute format(
      'select s.last_value - (not s.is_called)::integer from %s as s', tidegate_internal.queue_sequence(queue)
    ) into value;
    return next;
  end loop;
end;
$$;
select tidegate_internal.allow('queue_counter_values', '{reader,worker,admin}');
