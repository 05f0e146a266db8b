-- delete_requests: Deletes those requests that have ended and are not locked, with their history in the default
-- partition; returns them.
create or replace function tidegate_internal.delete_requests(p_ids uuid[])
  returns uuid[] language plpgsql as $$
declare
  v_gone uuid[];
begin
  with locked as materialized (
    select r.id
    from tidegate.request as r
    where r.id = any(p_ids) and r.req_status in ('completed', 'timed_out', 'failure')
    order by r.id
    for update skip locked
  ), gone as (
    delete from tidegate.request as r using locked as l where r.id = l.id returning r.id
  )
  select array_agg(g.id) into v_gone from gone as g;
  delete from tidegate.stored_event_default as e where e.request_id = any(v_gone);
  return v_gone;
end;
$$;
select tidegate_internal.plan_along_indexes('delete_requests');
