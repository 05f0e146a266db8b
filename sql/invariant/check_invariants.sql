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
  returns table (place integer, name text, says text, violations bigint, samples text[], query text)
  language plpgsql stable security definer
  set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
  v_found constant text := '
    select i.place, i.name, i.says, f.violations, f.samples, i.query
    from (
      select v.name, count(*) as violations, (array_agg(v.id order by v.id))[1:10] as samples
      from (%s) as v
      group by v.name
    ) as f
    join tidegate.invariants(%L, %L) as i on i.name = f.name';
  v_alone  constant text := 'select %L as name, v.id from (%s) as v';
  v_shared constant text := 'select f.name, %s as id from %s cross join lateral (values %s) as f(name, is_broken)
    where (%s) and f.is_broken';
  v_group     record;
  v_invariant record;
begin
  for v_group in
    select
      array_agg(i.name) as names,
      case
        when i.source is null then format(v_alone, min(i.name), min(i.query))
        else format(
          v_shared, i.row_id, i.source, string_agg(format('(%L, %s)', i.name, i.condition), ', '),
          string_agg(format('(%s)', i.condition), ' or ')
        )
      end as query
    from tidegate.invariants(check_invariants.id_from, check_invariants.id_before) as i
    where names is null or i.name = any(names)
    group by i.source, i.row_id, coalesce(i.source, i.name)
    order by min(i.place)
  loop
    begin
      return query execute format(v_found, v_group.query, check_invariants.id_from, check_invariants.id_before);
      continue;
    exception when others then
      null;
    end;
    for v_invariant in
      select i.*
      from tidegate.invariants(check_invariants.id_from, check_invariants.id_before) as i
      where i.name = any(v_group.names)
    loop
      begin
        return query execute format(
          v_found, format(v_alone, v_invariant.name, v_invariant.query), check_invariants.id_from,
          check_invariants.id_before
        );
      exception when others then
        return query select
          v_invariant.place, v_invariant.name, v_invariant.says, 1::bigint,
          array[format('it could not be checked: %s', sqlerrm)], v_invariant.query;
      end;
    end loop;
  end loop;
end;
$$;
select tidegate_internal.allow('check_invariants', '{reader,admin}');
