-- lock_lineage: Locks requests and those that they were redriven as: until the end of the transaction no other session
-- changes what is known of their execution. In the order of their ids, so once in a transaction.
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
