-- missing_storage: The queues that lack their pgmq table, one of their counters, their turns, or their branch of a
-- queue function.
--
-- All queues when a queue function is out of date (see `each_queue`).
create or replace function tidegate_internal.missing_storage()
  returns setof tidegate.queue language sql stable as $$
  select q.*
  from tidegate.queue as q
  where to_regclass(tidegate_internal.queue_table(q.name)) is null
    or exists (
      select from unnest(tidegate_internal.queue_counters(q.fair_by is not null)) as c(counter)
      where to_regclass('tidegate.' || quote_ident(c.counter || '_' || q.name)) is null
    )
    or q.fair_by is not null and exists (
      select from unnest(array['turn_', 'arrival_']) as t(prefix)
      where to_regclass('tidegate.' || quote_ident(t.prefix || q.name)) is null
    )
    or exists (select from tidegate_internal.queue_functions() as f where f.body <> f.wanted)
  order by q.name;
$$;
