-- delete_requests: Deletes those requests that have ended and are not locked, with their history; returns them.
--
-- Declared, so that the guard does not store the history first, as it does for requests that are deleted by hand.
create or replace function tidegate_internal.delete_requests(p_ids uuid[])
  returns uuid[] language plpgsql as $$
declare
  v_gone  uuid[];
  v_first uuid;
  v_last  uuid;
  v_done  text; -- for an assignment, which costs less than a statement
begin
  v_done := set_config('tidegate.declared', pg_current_xact_id()::text, true);
  with locked as materialized (
    select r.id
    from tidegate.request as r
    where r.id = any(p_ids) and r.req_status in ('completed', 'timed_out', 'failure')
    order by r.id
    for update skip locked
  ), gone as (
    delete from tidegate.request as r using locked as l where r.id = l.id returning r.id
  )
  select array_agg(g.id), min(g.id::text), max(g.id::text) into v_gone, v_first, v_last from gone as g;
  v_done := set_config('tidegate.declared', '', true);
  -- The bounds leave out the partitions of other days.
  delete from tidegate.stored_event as e
  where e.request_id = any(v_gone) and e.request_id >= v_first and e.request_id <= v_last;
  return v_gone;
end;
$$;
select tidegate_internal.plan_along_indexes('delete_requests');
