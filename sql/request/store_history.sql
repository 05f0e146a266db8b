-- store_history: Stores the events of a request that only its row contains.
create or replace function tidegate_internal.store_history(p_id uuid)
  returns void language plpgsql
  -- A plan that is kept may have been made for empty tables: along an index it serves full ones, too.
  set enable_seqscan = off
  set plan_cache_mode = force_generic_plan
as $$
begin
  insert into tidegate.stored_event (request_id, transition_no, from_status, to_status, at, attempt, cause, worker,
    detail)
  select * from tidegate.request_event as e where e.request_id = p_id
  on conflict do nothing;
end;
$$;
