-- audit_violations: Where requests of a range, as `invariants` has it, break the invariants of rows and histories.
--
-- A row for each step that breaks some; without a `transition_no` it is about the row of the request.
create or replace function tidegate_internal.audit_violations(p_from uuid, p_before uuid)
  returns table (request_id uuid, transition_no integer, finding text)
  language sql stable as $$
  with about as materialized (
    select i.place, i.name, i.rule from tidegate.invariants() as i where i.by_request and i.source is not null
  )
  -- The id of a row of such an invariant is that of the request, and the number of the step.
  select
    split_part(f.id, ' ', 1)::uuid, nullif(split_part(f.id, ' ', 2), '')::integer,
    string_agg(a.name || ': ' || a.rule, '; ' order by a.place)
  from tidegate_internal.find_violations(array(select b.name from about as b), p_from, p_before) as v
  join about as a on a.name = v.name
  cross join unnest(v.ids) as f(id)
  group by f.id;
$$;
