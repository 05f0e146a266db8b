-- fair_queues: The fair queues that have their tables, in the order of their names.
create or replace function tidegate_internal.fair_queues()
  returns setof tidegate.queue language sql stable as $$
  select q.*
  from tidegate_internal.stored_queues() as q
  where q.fair_by is not null
    and to_regclass('tidegate.' || quote_ident('turn_' || q.name)) is not null
    and to_regclass('tidegate.' || quote_ident('arrival_' || q.name)) is not null
  order by q.name;
$$;
