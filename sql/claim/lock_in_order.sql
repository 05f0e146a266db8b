-- lock_in_order: locks the rows of requests in the order of their ids
create or replace function tidegate_internal.lock_in_order(p_ids uuid[])
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform from (select from tidegate.request as r where r.id = any(p_ids) order by r.id for update) as locked;
end;
$$;

comment on function tidegate_internal.lock_in_order is 'Locks the rows of requests in the order of their ids.';
