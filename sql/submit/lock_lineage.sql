-- lock_lineage: Locks requests and their redriven successors, in the order of their ids; until the end of the
-- transaction nobody can change what is known of their sends.
create or replace function tidegate_internal.lock_lineage(p_ids uuid[])
  returns void language plpgsql as $$
begin
  perform from (
    with recursive lineage as (
      select i.id from unnest(p_ids) as i(id)
      union
      select v.redriven_as from lineage as l join tidegate.redrive as v on v.request_id = l.id
    )
    select 1
    from lineage as l
    join tidegate.request as r on r.id = l.id
    order by r.id
    for share of r
  ) as locked;
end;
$$;
