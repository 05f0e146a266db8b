-- find_violations: What breaks each of the named invariants (null: all) in a range of requests, as `check_invariants`
-- says; no row for an invariant that holds.
create or replace function tidegate_internal.find_violations(p_names text[], p_from uuid, p_before uuid)
  returns table (name text, ids text[])
  language plpgsql stable as $$
#variable_conflict use_column
declare
  v_found  constant text := 'select v.name, array_agg(v.id order by v.id) from (%s) as v group by v.name';
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
    from tidegate.invariants(p_from, p_before) as i
    where p_names is null or i.name = any(p_names)
    group by i.source, i.row_id, coalesce(i.source, i.name)
    order by min(i.place)
  loop
    begin
      return query execute format(v_found, v_group.query);
      continue;
    exception when others then
      null;
    end;
    for v_invariant in
      select i.name, i.query from tidegate.invariants(p_from, p_before) as i where i.name = any(v_group.names)
    loop
      begin
        return query execute format(v_found, format(v_alone, v_invariant.name, v_invariant.query));
      exception when others then
        return query select v_invariant.name, array[format('it could not be checked: %s', sqlerrm)];
      end;
    end loop;
  end loop;
end;
$$;
