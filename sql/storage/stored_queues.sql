-- stored_queues: The queues that have a table, in the order of their names.
create or replace function tidegate_internal.stored_queues()
  returns setof tidegate.queue language sql stable as $$
  select q.*
  from tidegate.queue as q
  where to_regclass(tidegate_internal.queue_table(q.name)) is not null
  order by q.name;
$$;
