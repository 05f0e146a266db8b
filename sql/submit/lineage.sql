-- lineage: These requests, and what they were submitted again as, and so on.
create or replace function tidegate_internal.lineage(p_ids uuid[])
  returns setof uuid language sql stable as $$
  with recursive lineage as (
    select i.id from unnest(p_ids) as i(id)
    union
    select v.redriven_as from lineage as l join tidegate.redrive as v on v.request_id = l.id
  )
  select l.id from lineage as l where l.id is not null;
$$;
