-- check_invariants: The broken invariants among those named (null: all), in one snapshot, for a range of requests.
--
-- `violations` counts what breaks it, `samples` are the first ten of those, `query` shows them all. Changes nothing,
-- and locks nothing. Reads every request, message and step of history: seconds for a million requests. More of
-- them are checked in steps, as `tidegate doctor` does: `names` are the invariants (null: all), `id_from` and
-- `id_before` the range of requests for those that are `by_request`. Invariants with a common source are checked in one
-- query. When a query fails, because one of them is wrong or a queue's table has gone since, each is checked again by
-- itself; a failure then counts as a violation, with the database's error as its sample.
create or replace function tidegate.check_invariants(
  names text[] default null, id_from uuid default null, id_before uuid default null
)
  returns table (place integer, name text, rule text, violations bigint, samples text[], query text)
  language sql stable security definer
  set work_mem = '64MB'
as $$
  select i.place, i.name, i.rule, cardinality(v.ids)::bigint, v.ids[1:10], i.query
  from tidegate_internal.find_violations(
    check_invariants.names, check_invariants.id_from, check_invariants.id_before
  ) as v
  join tidegate.invariants(check_invariants.id_from, check_invariants.id_before) as i on i.name = v.name
  order by i.place;
$$;
select tidegate_internal.allow('check_invariants', '{reader,admin}');
