-- missing_storage: queues that lack their pgmq table or one of their counters
create or replace function tidegate_internal.missing_storage()
  returns setof tidegate.queue
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select q.*
  from tidegate.queue as q
  where to_regclass(tidegate_internal.queue_table(q.name)) is null
    or exists (
      select
      from unnest(array['pacing', 'mark', 'due', 'survey', 'hand']) as c(counter)
      where to_regclass('tidegate.' || quote_ident(c.counter || '_' || q.name)) is null
    )
  order by q.name;
$$;

comment on function tidegate_internal.missing_storage is 'Queues that lack their pgmq table or a counter.';
