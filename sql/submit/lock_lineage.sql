-- lock_lineage: Locks requests and their redriven successors, in the order of their ids; until the end of the
-- transaction no other session can change what is known of their sends.
create or replace function tidegate_internal.lock_lineage(p_ids uuid[])
  returns void language plpgsql as $$
begin
  perform from (
    select 1
    from tidegate.request as r
    where r.id = any(array(select l.id from tidegate_internal.lineage(p_ids) as l(id)))
    order by r.id
    for share
  ) as locked;
end;
$$;
