-- check_invariants: The broken invariants among those named (null: all), in one snapshot, for a range of requests.
--
-- `violations` counts what breaks it, `samples` are the first ten of those, `query` shows them all. Changes nothing,
-- and locks nothing. Reads every request, message and step of history: seconds for a million requests. For more of them
-- it is asked in steps, as `tidegate doctor` does: `names` says which invariants (null: all), `id_from` and `id_before`
-- of which requests those are asked that are `by_request`. Requests, and steps of history, are read once for all that
-- say what breaks one of them; when that fails, each is asked by itself. A query that fails then counts as a violation,
-- with what the database said as its sample; one that fails because a queue's table has gone since is asked again
-- without it.
create or replace function tidegate.check_invariants(
  names     text[] default null,
  id_from   uuid default null,
  id_before uuid default null
)
  returns table (place integer, name text, says text, violations bigint, samples text[], query text)
  language plpgsql stable security definer
  set jit = off
  set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
  v_count constant text := 'select count(*), (array_agg(v.id order by v.id))[1:10] from (%s) as v';
  v_alone     text[] := '{}';
  v_shared    record;
  v_invariant record;
begin
  for v_shared in
    select
      array_agg(i.name) as names,
      format(
        'select f.name, %s as id from %s cross join lateral (values %s) as f(name, is_broken) where (%s) and '
        'f.is_broken',
        i.row_id, i.source, string_agg(format('(%L, %s)', i.name, i.condition), ', '),
        string_agg(format('(%s)', i.condition), ' or ')
      ) as query
    from tidegate.invariants(check_invariants.id_from, check_invariants.id_before) as i
    where names is null or i.name = any(names)
    group by i.source, i.row_id
    having i.source is not null
  loop
    begin
      return query execute format(
        'select i.place, i.name, i.says, b.violations, b.samples, i.query
         from (
           select v.name, count(*) as violations, (array_agg(v.id order by v.id))[1:10] as samples
           from (%s) as v
           group by v.name
         ) as b
         join tidegate.invariants(%L, %L) as i on i.name = b.name',
        v_shared.query, check_invariants.id_from, check_invariants.id_before
      );
    exception when others then
      v_alone := v_alone || v_shared.names;
    end;
  end loop;
  for v_invariant in
    select * from tidegate.invariants(check_invariants.id_from, check_invariants.id_before) as i
    where (names is null or i.name = any(names)) and (i.source is null or i.name = any(v_alone))
    order by i.place
  loop
    begin
      begin
        execute format(v_count, v_invariant.query) into violations, samples;
      exception when undefined_table then
        execute format(v_count, (
          select i.query
          from tidegate.invariants(check_invariants.id_from, check_invariants.id_before) as i
          where i.name = v_invariant.name
        )) into violations, samples;
      end;
    exception when others then
      violations := 1;
      samples := array[format('it could not be checked: %s', sqlerrm)];
    end;
    return query select
      v_invariant.place, v_invariant.name, v_invariant.says, violations, samples, v_invariant.query
    where violations > 0;
  end loop;
end;
$$;
select tidegate_internal.allow('check_invariants', '{reader,admin}');
